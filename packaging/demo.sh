#!/bin/bash
# ./run demo: thumbnails of photographs as jobs of a private server, broken files among them.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh

photo_package=lomiri-wallpapers-16.04
mainspring=$PWD/build/release/mainspring
out=$PWD/demo-out
keep=
if [[ ${1:-} == --keep ]]; then keep=1; shift; fi
photos=${1:-}
workers=$(nproc)

need jq imagemagick
if [[ -z $photos ]]; then
  need "$photo_package"
  photos=/usr/share/backgrounds
  mapfile -d '' -t files < <(dpkg -L "$photo_package" | grep -E '\.jpg$' | tr '\n' '\0')
else
  [[ -d $photos ]] || die "demo: $photos is not a directory"
  photos=$(readlink -f "$photos")
  mapfile -d '' -t files < <(find "$photos" -path "$out" -prune -o -type f \
    \( -iname '*.jpg' -o -iname '*.jpeg' -o -iname '*.png' \) -print0 | sort -z)
fi
((${#files[@]} > 0)) || die "demo: there are no photographs (*.jpg, *.jpeg, *.png) in $photos"

work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-demo.XXXXXX")
server='' worker=''
clean_up() {
  [[ -z $worker ]] || kill "$worker" 2>/dev/null || true
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# -- three files that cannot work -------------------------------------------------------------------
mkdir "$work/broken"
head -c 20000 "${files[0]}" >"$work/broken/truncated.jpg"
echo "This is a renamed text." >"$work/broken/text.jpg"
: >"$work/broken/empty.jpg"
broken=("$work"/broken/*.jpg)

# -- a private server on a free port ----------------------------------------------------------------
# A server that stays must not hold the caller's output open.
errors=/dev/stderr
if [[ -n $keep ]]; then errors=$work/log; fi
"$mainspring" serve --data "$work/data" --listen 127.0.0.1:0 --log-level warn --json >"$work/server" 2>"$errors" </dev/null &
server=$!
for ((i = 0; i < 100; ++i)); do
  if [[ -s $work/server ]]; then break; fi
  kill -0 "$server" 2>/dev/null || die "demo: the server did not start"
  sleep 0.1
done
MAINSPRING_SERVER=$(jq -r .url "$work/server")
export MAINSPRING_SERVER
say "A private server is at $MAINSPRING_SERVER."

# -- one job per file -------------------------------------------------------------------------------
rm -rf "$out"
mkdir "$out"
number=0
for file in "${files[@]}" "${broken[@]}"; do
  number=$((number + 1))
  name=${file##*/}
  jq -nc --arg path "$file" --arg to "$(printf '%s/%04d-%s.jpg' "$out" "$number" "${name%.*}")" \
    '{args: {path: $path, to: $to}, max_attempts: 3, timeout: "30s"}'
done >"$work/jobs.jsonl"
say "Enqueueing a thumbnail job for each of ${#files[@]} photographs of $photos and ${#broken[@]} broken files:"
"$mainspring" enqueue photos thumbnail --many "$work/jobs.jsonl" >&2

# -- a worker, and its progress ---------------------------------------------------------------------
say "A worker runs ImageMagick's convert for them, $workers at a time, up to 3 attempts each."
"$mainspring" work --queue photos --exec packaging/demo-thumbnail.sh --slots "$workers" \
  --retry-after 1s --drain >"$work/worker" 2>&1 &
worker=$!
started=$SECONDS
last=''
while kill -0 "$worker" 2>/dev/null; do
  line=$("$mainspring" queues show photos --json | jq -r --arg all "$number" '.counts |
    "\(.completed + .dead) of \($all) ended: \(.completed) completed, \(.dead) dead; " +
    "\(.running) running, \(.retryable) to be tried again"' 2>/dev/null || true)
  if [[ -t 2 ]]; then
    printf '\r\033[K%s' "$line" >&2
  elif [[ $line != "$last" ]]; then
    say "  $line"
  fi
  last=$line
  sleep 0.3
done
if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
status=0
wait "$worker" || status=$?
worker=''
((status == 0)) || { cat "$work/worker" >&2; die "demo: the worker failed"; }
say "Done in $((SECONDS - started)) s: $(tail -n 1 "$work/worker")."

# -- outcome ------------------------------------------------------------------------------------------
echo
echo "Completed:"
"$mainspring" jobs list --state completed --all --json | jq -r .id | sort -n | while read -r id; do
  "$mainspring" jobs show "$id" --json | jq -r '"  job \(.id)  \(.result.width)x\(.result.height)  " +
    "\(.args.to | sub(".*/"; "demo-out/"))"'
done
echo
echo "Dead letter (mainspring dead list):"
"$mainspring" dead list --all
echo

# -- as it should be? -------------------------------------------------------------------------------
completed=$("$mainspring" jobs list --state completed --all --json | wc -l)
dead=$("$mainspring" dead list --all --json | wc -l)
readable=0
for thumbnail in "$out"/*.jpg; do
  if identify "$thumbnail" >/dev/null 2>&1; then readable=$((readable + 1)); fi
done
echo "$completed of ${#files[@]} photographs completed, $dead of ${#broken[@]} broken files in the dead letter," \
  "$readable readable thumbnails in demo-out/."
"$mainspring" verify
dashboard=$MAINSPRING_SERVER/ui/
if ((completed != ${#files[@]} || dead != ${#broken[@]} || readable != ${#files[@]})); then
  die "demo: that is not what was expected"
fi
if [[ -z $keep ]]; then
  say "Look at these jobs in the dashboard: ./run demo --keep"
  exit
fi
trap - EXIT INT TERM
disown "$server"
say "The server keeps running. Its data is in $work. Stop it: kill $server && rm -r $work"
say "Dashboard: $dashboard"
