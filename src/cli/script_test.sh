# What the tests of commands share: a directory of their own, which goes at the end with the server in it,
# expect, await and start_server. Sourced with PROGRAM as $1, not run. Leaves `passed` and `failed` to be reported.
# shellcheck shell=bash disable=SC2034
mainspring=$(readlink -f "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-script-test.XXXXXX")
cd "$work" || exit 1
unset "${!MAINSPRING_@}"
export XDG_CONFIG_HOME=$work/config NO_COLOR=1
passed=0 failed=0 server=''
clean_up() {
  [[ -z $server ]] || kill "$server" 2>/dev/null
  wait
  rm -rf "$work"
}
trap clean_up EXIT

# expect CODE TEXT COMMAND…: the command ends with CODE and prints (both streams together) TEXT, where
# … stands for anything.
expect() {
  local code=$1 text=$2 got status=0 escaped
  shift 2
  got=$("$@" 2>&1 </dev/null) || status=$?
  # every character as it is, but … as "anything"
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

# await COMMAND…: until it succeeds, for at most 60 s.
await() {
  for ((n = 0; n < 1200; ++n)); do
    "$@" >/dev/null 2>&1 && return 0
    read -rt 0.05 <> <(:) || true
  done
  echo "FAILED: waited in vain for: $*"
  failed=$((failed + 1))
}

# A server over a directory of its own, at which MAINSPRING_SERVER points.
start_server() {
  rm -f server.json
  "$mainspring" serve --data "$work/data" --listen 127.0.0.1:0 --json --log-level error >server.json 2>>server.log &
  server=$!
  await test -s server.json
  MAINSPRING_SERVER=$(sed 's/.*"url":"\([^"]*\)".*/\1/' server.json)
  export MAINSPRING_SERVER
}
