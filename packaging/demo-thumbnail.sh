#!/bin/bash
# The program that ./run demo runs for each job: args {"path", "to"} on standard input, a thumbnail out.
# Exit code 0 completes the job with the last line as its result; any other is a failed attempt, and
# the end of standard error is kept as the reason.
set -euo pipefail
job=$(cat)
path=$(jq -r .args.path <<<"$job")
to=$(jq -r .args.to <<<"$job")
part=$to.$MAINSPRING_TOKEN.jpg
trap 'rm -f "$part"' EXIT
if ! problem=$(convert -regard-warnings "$path" -auto-orient -thumbnail 320x320 -strip -quality 85 "$part" 2>&1); then
  head -n 1 <<<"$problem" | sed 's/ @ .*//' >&2
  exit 1
fi
mv "$part" "$to"
identify -format '{"width":%w,"height":%h,"bytes":%B}\n' "$to"
