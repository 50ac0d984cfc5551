#!/bin/bash
# Fuzzes: each target of tests/fuzz for some seconds, beginning with its corpus. See ./test --help.
# Usage: packaging/fuzz.sh [SECONDS_PER_TARGET] [TARGET…]
#
# What it finds new goes to build/fuzz/found/TARGET; what crashes to build/fuzz/crash-TARGET-…: copy it to
# tests/fuzz/corpus/TARGET under a name that says what it was, and fuzz_corpus_test keeps it from coming back.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh

seconds=${1:-20}
[[ $seconds =~ ^[0-9]+$ ]] || die "SECONDS_PER_TARGET \"$seconds\": must be a number"
shift || true
targets=("$@")
need "${BUILD_PACKAGES[@]}" "${TEST_BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" clang llvm
if [[ ! -f build/fuzz/build.ninja ]]; then step "Configuring fuzz" cmake --preset fuzz; fi
step "Building the fuzz targets (the first time takes a few minutes)" ninja -C build/fuzz fuzzers
((${#targets[@]} > 0)) || mapfile -t targets < <(cd tests/fuzz/corpus && printf '%s\n' *)

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
passed=0 failed=0
for target in "${targets[@]}"; do
  [[ -d tests/fuzz/corpus/$target ]] || die "no target \"$target\" in tests/fuzz/corpus"
  found=build/fuzz/found/$target log=build/fuzz/$target.log
  mkdir -p "$found"
  status=0
  build/fuzz/fuzz_"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
    -artifact_prefix="build/fuzz/crash-$target-" "$found" "tests/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  runs=$(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log")
  if ((status == 0)); then
    passed=$((passed + 1))
    say "$target: ${runs:-0} inputs, nothing broke"
  else
    failed=$((failed + 1))
    say "$target: broke. The end of $log:"
    tail -n 40 "$log" >&2
  fi
done
echo "$passed passed, $failed failed"
((failed == 0))
