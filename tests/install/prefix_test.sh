#!/bin/bash
# Installs a build and uses the installed files: the program with its debug information, and the library by
# find_package and by pkg-config. Needs gdb. With --limit the installed program has at most BYTES bytes.
# Usage: prefix_test.sh [--limit BYTES] BUILD SOURCES COMPILER
set -euo pipefail
limit=
if [[ $1 == --limit ]]; then limit=$2; shift 2; fi
build=$(readlink -f "$1") sources=$(readlink -f "$2") compiler=$3
place=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-install.XXXXXX")
trap 'rm -rf "$place"' EXIT
cd "$place"
unset DESTDIR
export MAINSPRING_INSTALL_ANYWAY=1  # a build for tests is refused without it
prefix="$place/a prefix"

die() { printf 'prefix_test: %s\n' "$*"; exit 1; }
# quiet COMMAND…: shows its output if it fails.
quiet() { "$@" >output 2>&1 || { cat output; die "failed: $*"; }; }
# refused TEXT COMMAND…: it fails and prints TEXT.
refused() {
  local text=$1
  shift
  if "$@" >output 2>&1; then cat output; die "did not fail: $*"; fi
  grep -qF -- "$text" <<<"$(tr -s '\n ' ' ' <output)" || { cat output; die "does not say \"$text\": $*"; }
}
install() { quiet cmake --install "$build" --prefix "$@"; }
files() { (cd "$1" && find . -type f | sort); }

# -- a refused install changes nothing
if grep -q '^MAINSPRING_MUTANTS:BOOL=ON' "$build/CMakeCache.txt"; then
  MAINSPRING_INSTALL_ANYWAY='' refused "built for tests. Build a release first" \
    cmake --install "$build" --prefix "$prefix"
fi
refused 'component "nothing": must be mainspring or mainspring-dev' \
  cmake --install "$build" --prefix "$prefix" --component nothing
[[ ! -e $prefix ]] || die "a refused install left $prefix"
touch file
refused "$place/file/prefix" cmake --install "$build" --prefix "$place/file/prefix"
if ((EUID != 0)); then
  mkdir -m 555 read-only
  refused "$place/read-only" cmake --install "$build" --prefix "$place/read-only"
fi

# -- a full install
install "$prefix"
mapfile -t headers < <(cd "$sources/include" && ls mainspring/*.h mainspring/*.def)
{
  printf './bin/%s\n' .debug/mainspring.debug mainspring
  printf './include/%s\n' "${headers[@]}"
  printf './lib/%s\n' libmainspring.a pkgconfig/mainspring.pc
  config=$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt" | tr '[:upper:]' '[:lower:]')
  printf './lib/cmake/Mainspring/%s.cmake\n' MainspringConfig MainspringConfigVersion MainspringTargets \
    "MainspringTargets-${config:-noconfig}"
  printf './share/%s\n' man/man1/mainspring.1 bash-completion/completions/mainspring \
    zsh/site-functions/_mainspring fish/vendor_completions.d/mainspring.fish
} | sort | diff - <(files "$prefix") || die "other files are installed"

# -- the program is stripped, and gdb finds its symbols
program="$prefix/bin/mainspring"
"$program" version >/dev/null
size=$(stat -c %s "$program")
if [[ -n $limit ]] && ((size > limit)); then die "the installed program has $size bytes, more than $limit"; fi
readelf -WS "$program" >sections
! grep -qE ' \.(symtab|debug_)' sections || die "the installed program is not stripped"
gdb -nx -batch -ex 'info address main' "$program" >output 2>&1
grep -qE 'Symbol "main(\(.*\))?" is' output || { cat output; die "gdb does not find the symbols"; }
readelf -WS "$build/mainspring" >sections
if grep -q ' \.debug_line' sections; then
  gdb -nx -batch -ex 'info line main' "$program" >output 2>&1
  grep -q 'Line [0-9]* of ".*main.cc"' output || { cat output; die "gdb does not find the lines"; }
fi

# -- again, over an older version: the same files, and none of the older ones
cp -a "$prefix" first
touch "$prefix/include/mainspring/gone.h"
chmod a-w "$program"
install "$prefix"
diff -r first "$prefix" || die "a second install leaves something else"

# -- into a staging directory, and each component alone
DESTDIR="$place/staged here" install /usr/local
diff -r first "staged here/usr/local" || die "DESTDIR changes what is installed"
install "$place/parts" --component mainspring
[[ ! -e parts/include && -x parts/bin/mainspring ]] || die "component mainspring has more or less"
install "$place/parts" --component mainspring-dev
diff -r first parts || die "the components together are not all"

# -- find_package
example() { # NAME PROGRAM
  "$2" "$place/jobs-$1" >printed
  diff "$sources/examples/embed/embed.expected" printed || die "embed by $1 prints something else"
}
configure=(cmake -G Ninja -S "$sources/examples/embed" "-DCMAKE_CXX_COMPILER=$compiler" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
quiet "${configure[@]}" -B by-cmake "-DCMAKE_PREFIX_PATH=$prefix"
quiet cmake --build by-cmake
example cmake by-cmake/embed
if grep -E '"command".*( -[DW]|/src[ "/])' by-cmake/compile_commands.json; then
  die "the package adds flags of ours to a program"
fi

# -- pkg-config, in a prefix that was moved
mv "$prefix" "$place/moved prefix"
export PKG_CONFIG_PATH="$place/moved prefix/lib/pkgconfig"
flags=$(pkg-config --cflags --libs mainspring)
if grep -E -e '(^| )-(D|W|std)' <<<"$flags"; then die "pkg-config adds flags of ours to a program"; fi
eval "quiet $compiler -std=c++20 '$sources/examples/embed/main.cc' $flags -o by-pkg-config"
example pkg-config ./by-pkg-config

# -- an incomplete prefix is refused
rm "$place/moved prefix/lib/libmainspring.a"
refused "libmainspring.a" "${configure[@]}" -B partial "-DCMAKE_PREFIX_PATH=$place/moved prefix"
