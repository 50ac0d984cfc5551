#!/bin/bash
# Runs a command whose arguments depend on MAINSPRING_TEST_SCALE: "scale=4:20:90" becomes the first, second or third
# value under `./test fast`, `./test` and `./test full`. See scale.h.
set -euo pipefail
case ${MAINSPRING_TEST_SCALE:-default} in
  fast) field=1 ;;
  default) field=2 ;;
  full) field=3 ;;
  *) echo "MAINSPRING_TEST_SCALE is not fast, default or full" >&2; exit 64 ;;
esac
words=()
for word in "$@"; do
  if [[ $word == scale=* ]]; then word=$(cut -d: -f$field <<<"${word#scale=}"); fi
  words+=("$word")
done
exec "${words[@]}"
