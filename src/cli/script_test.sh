# Shared by the tests of commands: a temporary directory, removed at the end together with its server; expect, await
# and start_server. Source it with PROGRAM as $1. Counts in `passed` and `failed`; the caller reports them.
# shellcheck shell=bash disable=SC2034
mainspring=$(readlink -f "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-script-test.XXXXXX")
cd "$work" || exit 1
unset "${!MAINSPRING_@}"
export XDG_CONFIG_HOME=$work/config NO_COLOR=1 TZ=UTC
passed=0 failed=0 server=''
clean_up() {
  [[ -z $server ]] || kill "$server" 2>/dev/null
  wait
  rm -rf "$work"
}
trap clean_up EXIT

# expect CODE TEXT COMMAND…: checks that the command ends with CODE and prints TEXT (both streams together). In TEXT,
# … stands for anything.
expect() {
  local code=$1 text=$2 got status=0 escaped
  shift 2
  got=$("$@" 2>&1 </dev/null) || status=$?
  # quotes every character except …, which matches anything
  escaped=$(printf '%s' "$text" | sed 's/[][\\*?]/\\&/g; s/…/*/g')
  # shellcheck disable=SC2053
  if [[ $status == "$code" && $got == $escaped ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n-- expected, exit code %s:\n%s\n-- got, exit code %s:\n%s\n\n' "$*" "$code" "$text" "$status" "$got"
  fi
}
ms() { "$mainspring" "$@"; }
# contains PATTERN…: like `grep -q` on standard input, but reads all of it. `grep -q` closes the pipe at the first match;
# the writer then ends with SIGPIPE, and pipefail makes the pipeline fail.
contains() {
  (($(grep -c "$@") > 0))
}

# await COMMAND…: repeats it until it succeeds, for at most 60 s (or `patience` s).
await() {
  local n
  for ((n = 0; n < ${patience:-60} * 20; ++n)); do
    "$@" >/dev/null 2>&1 && return 0
    read -rt 0.05 <> <(:) || true
  done
  echo "FAILED: waited in vain for: $*"
  failed=$((failed + 1))
}

# Starts a server over its own directory and sets MAINSPRING_SERVER.
start_server() {
  rm -f server.json
  "$mainspring" serve --data "$work/data" --listen 127.0.0.1:0 --json --log-level error >server.json 2>>server.log &
  server=$!
  await test -s server.json
  MAINSPRING_SERVER=$(sed 's/.*"url":"\([^"]*\)".*/\1/' server.json)
  export MAINSPRING_SERVER
}
