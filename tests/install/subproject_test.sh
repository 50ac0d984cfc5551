#!/bin/bash
# Another project includes the sources, as docs/guides/cpp.md says: it gets the target mainspring::engine, and neither
# flags nor settings of ours. With --build the engine is built too, without PostgreSQL, libcurl and libarchive, and run.
# Usage: subproject_test.sh [--build] SOURCES COMPILER
set -euo pipefail
whole=
if [[ $1 == --build ]]; then whole=1; shift; fi
sources=$(readlink -f "$1") compiler=$2
place=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-subproject.XXXXXX")
trap 'rm -rf "$place"' EXIT
cd "$place"

die() { printf 'subproject_test: %s\n' "$*"; exit 1; }
quiet() { "$@" >output 2>&1 || { cat output; die "failed: $*"; }; }
refused() {
  local text=$1
  shift
  if "$@" >output 2>&1; then cat output; die "did not fail: $*"; fi
  grep -qF -- "$text" <<<"$(tr -s '\n ' ' ' <output)" || { cat output; die "does not say \"$text\": $*"; }
}
# The block of the guide that has TEXT in it.
guide() {
  awk -v text="$1" '/^```cmake$/ { block = ""; inside = 1; next }
    /^```/ { if (inside && index(block, text)) printf "%s", block; inside = 0; next }
    inside { block = block $0 "\n" }' "$sources/docs/guides/cpp.md"
}

# outer NAME CMAKE…: creates a project whose program is linked by the given lines.
outer() {
  local name=$1
  shift
  mkdir "$name"
  ln -s "$sources" "$name/mainspring"
  cp "$sources/examples/embed/main.cc" "$name"
  {
    cat <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(outer CXX)
get_cmake_property(before VARIABLES)
add_executable(my_program main.cc)
CMAKE
    printf '%s\n' "$@"
    cat "$place/checks.cmake"
  } >"$name/CMakeLists.txt"
}
cat >checks.cmake <<'CMAKE'
set_target_properties(my_program PROPERTIES EXPORT_COMPILE_COMMANDS ON)
function(must_be_empty WHAT VALUE)
  if(VALUE)
    message(FATAL_ERROR "${WHAT} reaches the other project: ${VALUE}")
  endif()
endfunction()
foreach(variable CMAKE_CXX_STANDARD CMAKE_CXX_EXTENSIONS CMAKE_RUNTIME_OUTPUT_DIRECTORY CMAKE_EXPORT_COMPILE_COMMANDS
                 CMAKE_CXX_COMPILER_LAUNCHER BUILD_TESTING CCACHE GOLD)
  must_be_empty(${variable} "${${variable}}")
endforeach()
foreach(name mainspring::engine Mainspring::mainspring)
  foreach(property COMPILE_DEFINITIONS COMPILE_OPTIONS LINK_OPTIONS SOURCES)
    get_target_property(value ${name} INTERFACE_${property})
    must_be_empty("${name} ${property}" "${value}")
  endforeach()
  get_target_property(directories ${name} INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT directories MATCHES "^[^;]*/include>?$")
    message(FATAL_ERROR "include directories of ${name}: ${directories}")
  endif()
endforeach()
foreach(name mainspring ms_http ms_cli ms_doctest_main)
  if(TARGET ${name})
    message(FATAL_ERROR "the other project builds ${name} too")
  endif()
endforeach()
CMAKE
configure() { # NAME OPTION…
  local name=$1
  shift
  quiet cmake -G Ninja -S "$name" -B "$name/build" "-DCMAKE_CXX_COMPILER=$compiler" "$@"
  if grep '"command".*my_program' "$name/build/compile_commands.json" | grep -E ' -[DW]|/src[ "/]'; then
    die "flags of ours reach the other project's program"
  fi
  ctest --test-dir "$name/build" -N >output 2>&1
  grep -qx 'Total Tests: 0' output || die "tests of ours are the other project's"
  quiet cmake --install "$name/build" --prefix "$place/$name-prefix"
  [[ ! -e $name-prefix ]] || die "the other project installs something of ours"
}

fetched=$(guide FetchContent)
added=$(guide add_subdirectory)
[[ -n $fetched && -n $added ]] || die "docs/guides/cpp.md shows neither FetchContent nor add_subdirectory"
outer fetched "$fetched"
configure fetched -DCMAKE_DISABLE_FIND_PACKAGE_CURL=ON
if grep -qE '^MAINSPRING_CALLBACKS:BOOL=(ON|1|TRUE)$' fetched/build/CMakeCache.txt; then die "libcurl is missing, and used"; fi
outer added "$added"
without=(-DMAINSPRING_POSTGRES=OFF -DMAINSPRING_CALLBACKS=OFF)
for package in PostgreSQL CURL LibArchive; do without+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
configure added "${without[@]}"

# Standalone it is built as a whole or as an engine. Parts that are not built are not installed.
alone=(cmake -G Ninja -S "$sources" -B alone "-DCMAKE_CXX_COMPILER=$compiler" "${without[@]}")
refused "only an embedded engine can be built without PostgreSQL" "${alone[@]}"
quiet "${alone[@]}" -DMAINSPRING_PROGRAM=OFF -DMAINSPRING_TESTS=OFF
refused "libmainspring.a is not built. Build it first" cmake --install alone --prefix "$place/prefix"
quiet "${alone[@]}" -DMAINSPRING_INSTALL=OFF
refused "Nothing is installed" cmake --install alone --prefix "$place/prefix"
[[ ! -e prefix ]] || die "something is installed"
[[ -n $whole ]] || exit 0

quiet cmake --build added/build --target my_program -j 2
if ninja -C added/build -t deps | grep -E '/(libpq|curl/|archive)[^/]*\.h$'; then die "headers that should not be needed"; fi
program=added/build/my_program
ldd "$program" >libraries
! grep -E 'libpq|libcurl|libarchive' libraries || die "libraries that should not be needed"
"$program" "$place/jobs" >printed
diff "$sources/examples/embed/embed.expected" printed || die "the program prints something else"
refused "url: postgres://… is not part of this build" "$program" postgres://127.0.0.1/none
cat >added/main.cc <<'CPP'
// Wants what the build has not.
#include <iostream>

#include "mainspring/engine.h"

int main(int, char** argv) {
  const auto engine = mainspring::Engine::open(argv[1], {.callback_slots = 1});
  std::cerr << (engine ? "opened" : engine.error().message) << '\n';
  return engine ? 0 : 1;
}
CPP
quiet cmake --build added/build --target my_program -j 2
refused "callback_slots: must be 0" "$program" "$place/jobs"

# The installed engine needs only the libraries that it was built with.
quiet cmake added/build -DMAINSPRING_INSTALL=ON
quiet cmake --install added/build --prefix "$place/small"
embed=(cmake -G Ninja -S "$sources/examples/embed" -B embed "-DCMAKE_CXX_COMPILER=$compiler" "-DCMAKE_PREFIX_PATH=$place/small")
quiet "${embed[@]}" "${without[@]:2}"
quiet cmake --build embed
embed/embed "$place/other-jobs" >printed
diff "$sources/examples/embed/embed.expected" printed || die "the installed engine prints something else"
