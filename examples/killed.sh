# Shared by the examples that kill a server and its workers at random: restarted processes, strikes, and the cleanup.
# Source it from a script with `set -euo pipefail` that has set `name`, `mainspring` (the program), `kept` (a text
# that describes the directory) and `keep`.
# Sets `dir`, a new directory, and MAINSPRING_SERVER, a socket in it.
# shellcheck shell=bash disable=SC2154

dir=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-$name.XXXXXX")
export MAINSPRING_SERVER=unix:$dir/socket # no port that another program could take while the server is dead

say() { printf '%s\n' "$*"; }
die() { say "$*" >&3; exit 1; }
exec 3>&2 2>"$dir/run.log" # bash reports each killed process there

# -- processes --------------------------------------------------------------------------------------
declare -A pid=()
alive() { [[ -n ${pid[$1]:-} ]] && kill -0 "${pid[$1]}" 2>/dev/null; }
# start NAME COMMAND…: in the background, its output in a log of that name.
start() {
  local name=$1
  shift
  "$@" >>"$dir/$name.log" 2>&1 &
  pid[$name]=$!
}
# start_serving FLAG…: the server, until it answers.
start_serving() {
  local i
  start server "$mainspring" serve --listen "$MAINSPRING_SERVER" --log-level warn "$@"
  for ((i = 0; i < 600; ++i)); do
    if "$mainspring" workers >/dev/null 2>&1; then return; fi
    alive server || die "the server did not start: $(tail -n 5 "$dir/server.log")"
    sleep 0.05
  done
  die "the server did not answer"
}
clean_up() {
  local status=$? name
  for name in "${!pid[@]}"; do kill -9 "${pid[$name]}" 2>/dev/null || true; done
  wait 2>/dev/null || true
  if ((status == 0)) && [[ -z $keep ]]; then
    # A program of a killed worker may write while it is being ended.
    rm -rf "$dir" 2>/dev/null || { sleep 1; rm -rf "$dir"; }
  else say "$kept: $dir"; fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# -- strikes, counted by what they hit --------------------------------------------------------------
declare -A struck=([server]=0 [worker]=0 [shop]=0 [stopped]=0)
# strike_down NAME [KIND]: kill -9.
strike_down() {
  alive "$1" || return 0
  struck[${2:-$1}]=$((struck[${2:-$1}] + 1))
  kill -9 "${pid[$1]}" 2>/dev/null || true
  # Until it is gone: a process that waits for the disk still counts as alive.
  wait "${pid[$1]}" 2>/dev/null || true
}
# stand_still NAME: stops the process until its lease is over and other workers have its jobs. Then it continues.
stand_still() {
  alive "$1" || return 0
  kill -STOP "${pid[$1]}" 2>/dev/null || return 0 # it has just ended
  struck[stopped]=$((struck[stopped] + 1))
  (sleep 3; kill -CONT "${pid[$1]}" 2>/dev/null || true) &
}
