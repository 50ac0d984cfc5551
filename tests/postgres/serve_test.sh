#!/bin/bash
# Three servers over one database, as operators run them: serve, enqueue, work, readyz, store, verify.
set -eu
program=$1
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
dir=$(mktemp -d /tmp/mainspring_serve_XXXXXX)
pids=()
as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
finish() {
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  as "$bin/pg_ctl" -D "$dir/pg/data" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap finish EXIT
fail() { echo "FAILED: $*" >&2; cat "$dir"/*.err >&2; exit 1; }

mkdir "$dir/pg"
chmod 755 "$dir"
[ "$(id -u)" != 0 ] || chown postgres "$dir/pg"
as "$bin/initdb" -D "$dir/pg/data" -A trust -U postgres >/dev/null
as "$bin/pg_ctl" -D "$dir/pg/data" -w -l "$dir/pg/log" \
  -o "-c listen_addresses= -c unix_socket_directories=$dir/pg -c fsync=off" start >/dev/null
url="postgres://postgres:hunter2@/postgres?host=$dir/pg"
echo "$url" >"$dir/url"
export XDG_CONFIG_HOME=$dir

"$program" store info "$url" | grep -q "schema *none" || fail "info of an empty database"
"$program" store migrate "$url" | grep -q "brought up to" || fail "migrate"
"$program" store migrate --store-file "$dir/url" | grep -q "nothing to do" || fail "migrate again"

serve() { # NUMBER, how the store is given
  local n=$1
  : >"$dir/$n.out"
  shift
  "$program" serve --listen 127.0.0.1:0 "$@" >"$dir/$n.out" 2>"$dir/$n.err" &
  pids+=($!)
  for _ in $(seq 200); do
    server=$(sed -n 's/.*listens on \(http[^,]*\),.*/\1/p' "$dir/$n.out")
    [ -z "$server" ] || return 0
    command sleep 0.1
  done
  fail "server $n does not start"
}
serve 1 --store-file "$dir/url"; first=$server
MAINSPRING_STORE=$url serve 2; second=$server
serve 3 --store "$url" --store-migrate off; third=$server
! grep -l hunter2 "$dir"/*.out "$dir"/*.err || fail "a password was shown"
[ -z "$("$program" config --explain --store "$url" | grep hunter2)" ] || fail "config shows it"

"$program" enqueue mail greet '{"name":"you"}' --server "$first" >/dev/null
"$program" work --queue mail --exec cat --drain --server "$second" >/dev/null 2>&1
"$program" queues list --json --server "$third" | grep -q '"completed":1' || fail "not completed"
ready=$(curl -s "$third/readyz")
echo "$ready" | grep -q '"kind":"postgres"' || fail "readyz: $ready"
echo "$ready" | grep -q '"synchronous_commit":"on"' || fail "readyz: $ready"
"$program" store info --store-file "$dir/url" | grep -q "servers *3 alive" || fail "servers alive"
"$program" verify --server "$first" | grep -q sound || fail "verify of a server"
if "$program" serve --listen 127.0.0.1:0 --store-file "$dir/url" --require-rpo0 2>"$dir/rpo0.err"; then
  fail "require_rpo0 does not hold"
fi
grep -q "no standby is synchronous" "$dir/rpo0.err" || fail "what rpo0 lacks"

# A token that is made in the database, beside the servers: they know it, and its end, by themselves.
"$program" token create here --scope read --store-file "$dir/url" >"$dir/token" || fail "token create"
answers() { # STATUS: of the token, on every server, within some seconds
  local status server
  for server in "$first" "$second" "$third"; do
    for _ in $(seq 150); do
      status=$(curl -s -o "$dir/body" -w '%{http_code}' -H "Authorization: Bearer $(cat "$dir/token")" "$server/v1/queues")
      [ "$status" != "$1" ] || continue 2
      command sleep 0.1
    done
    fail "a token made in the database: $status instead of $1"
  done
}
answers 200
"$program" token list --store "$url" | grep -q "here *good" || fail "token list"
"$program" token revoke here --store-file "$dir/url" >/dev/null || fail "token revoke"
answers 401
"$program" audit list --server "$first" | grep -q "token/here" || fail "no record of the token"
if "$program" token list --store-file "$dir/url" --server "$first" 2>"$dir/both.err"; then fail "both"; fi
grep -q "only one of them" "$dir/both.err" || fail "both are named"

kill -9 "${pids[0]}"
wait "${pids[0]}" 2>/dev/null || true
kill -TERM "${pids[1]}" "${pids[2]}"
for n in 1 2; do wait "${pids[$n]}" || fail "server $((n + 1)) did not end in good order"; done
"$program" verify --store-file "$dir/url" | grep -q sound || fail "verify"
echo "all well"
