#!/bin/bash
# Checks a hardened build with readelf and objdump: position independence, read-only relocations, checked stacks
# and buffers, control flow protection. Usage: hardening_test.sh [PROGRAM]; exit code 77: there is no PROGRAM.
set -euo pipefail

# Prints each missing property on a line; no output = hardened.
missing_in() {
  local program=$1 headers dynamic symbols code
  headers=$(readelf -Wlh "$program")
  dynamic=$(readelf -Wd "$program")
  symbols=$(readelf -W --dyn-syms "$program")
  grep -q 'Type: *DYN' <<<"$headers" || echo "position independence (-fPIE -pie)"
  grep -q 'GNU_RELRO' <<<"$headers" || echo "read-only relocations (-z relro)"
  grep -qE 'BIND_NOW|FLAGS.* NOW' <<<"$dynamic" || echo "immediate binding (-z now)"
  grep -qE 'GNU_STACK .* RW ' <<<"$headers" || echo "a stack without code (-z noexecstack)"
  if grep -qE '(RPATH|RUNPATH|TEXTREL)' <<<"$dynamic"; then echo "no RPATH, RUNPATH and TEXTREL"; fi
  grep -q '__stack_chk_fail' <<<"$symbols" || echo "stack protection (-fstack-protector-strong)"
  grep -qE '__(memcpy|read|snprintf|vsnprintf|memset|recv|poll|realpath)_chk' <<<"$symbols" ||
    echo "checked buffers (_FORTIFY_SOURCE)"
  grep -q '__glibcxx_assert_fail' <<<"$symbols" || echo "asserts of the library (_GLIBCXX_ASSERTIONS)"
  if [[ $(uname -m) == x86_64 ]]; then
    # The note of the whole program is lost as soon as one part, such as Debian's crt1.o, was built without.
    code=$(objdump -d --disassemble=main "$program")
    [[ $(grep -A1 '<main>:' <<<"$code") == *endbr64* ]] || echo "control flow protection (-fcf-protection)"
  fi
}

# A program without any hardening must be detected: otherwise this test is blind.
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cat >"$directory/soft.cc" <<'SOFT'
#include <cstdio>
#include <vector>
int main(int argc, char**) { char b[8]; std::snprintf(b, 8, "%d", argc); std::vector<int> v(2); return v[argc & 1] + b[0]; }
SOFT
g++ -O2 -no-pie -fno-stack-protector -fcf-protection=none -U_FORTIFY_SOURCE -Wl,-z,norelro,-z,lazy,-z,execstack \
  -Wl,-rpath,/tmp -o "$directory/soft" "$directory/soft.cc"
found=$(missing_in "$directory/soft" | wc -l)
if ((found != 9)); then
  echo "the canary, a program without any hardening, lacks 9 things; seen were $found:"
  missing_in "$directory/soft"
  exit 1
fi

program=${1:-}
if [[ ! -x $program ]]; then
  echo "no release program at \"$program\": build it with ./test release"
  exit 77
fi
missing=$(missing_in "$program")
if [[ -n $missing ]]; then
  echo "$program lacks:"
  echo "$missing"
  exit 1
fi
echo "$program has all of it"
