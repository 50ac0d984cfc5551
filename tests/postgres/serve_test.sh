#!/bin/bash
# Three servers over one database, as operators run them: serve, enqueue, work, readyz, store, verify.
set -eu
program=$1
# shellcheck source=tests/postgres/served_database.sh
source "$(dirname "$0")/served_database.sh"
echo "$url" >"$dir/url"

"$program" store info "$url" | grep -q "schema *none" || fail "info of an empty database"
"$program" store migrate "$url" | grep -q "brought up to" || fail "migrate"
"$program" store migrate --store-file "$dir/url" | grep -q "nothing to do" || fail "migrate again"

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

# An event stream of one server has the events of all servers, and continues at another server.
curl -sN "$third/v1/events?type=enqueued,completed,gap" >"$dir/stream" &
stream=$!
pids+=("$stream")
told() { # TEXT FILE: it comes, within some seconds
  timeout 20 grep -q -m1 "$1" < <(timeout 20 tail -n +1 -f --pid="$stream" "$2") || fail "no $1 in: $(tail -5 "$2")"
}
told '^id: .*,.*,' "$dir/stream" # it knows where the events of all three begin
"$program" enqueue mail greet --server "$first" >/dev/null
"$program" work --queue mail --exec true --drain --server "$second" >/dev/null 2>&1
told 'completed.*"queue":"mail"' "$dir/stream"
kill "$stream"
last=$(sed -n 's/^id: //p' "$dir/stream" | tail -1)
"$program" enqueue away missed --server "$third" >/dev/null
curl -sN -H "Last-Event-ID: $last" "$first/v1/events?type=enqueued,completed,gap" >"$dir/stream2" &
stream=$!
pids+=("$stream")
told '"queue":"away"' "$dir/stream2"
kill "$stream"
! grep -E '"mail"|"gap"' "$dir/stream2" || fail "told again, or a gap"

# A token created directly in the database: the servers detect it, and its revocation, by themselves.
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
for n in 1 2; do wait "${pids[$n]}" || fail "server $((n + 1)) did not stop cleanly"; done
"$program" verify --store-file "$dir/url" | grep -q sound || fail "verify"

# A server that starts during an outage of PostgreSQL waits for it, if it may; another ends.
as "$bin/pg_ctl" -D "$dir/pg/data" -w -m immediate stop >/dev/null
status=0
"$program" serve --listen 127.0.0.1:0 --store-file "$dir/url" 2>"$dir/outage.err" || status=$?
[ "$status" = 69 ] || fail "a start without PostgreSQL ends with $status"
grep -q -e "--wait-for-store" "$dir/outage.err" || fail "no word on waiting for PostgreSQL"
grep -q "failed: .*; Is the server running" "$dir/outage.err" || fail "the reason takes several lines"
(
  timeout 60 grep -q -m1 "waiting for the store" < <(timeout 60 tail -n +1 -F "$dir/5.err" 2>/dev/null)
  as "$bin/pg_ctl" -D "$dir/pg/data" -w -l "$dir/pg/log" -o "$options" start >/dev/null 2>&1
) &
starter=$!
serve 5 --store-file "$dir/url" --wait-for-store 10m
wait "$starter"
[ "$(grep -c "waiting for the store" "$dir/5.err")" = 1 ] || fail "more than one log line in a minute"
curl -sf "$server/readyz" >/dev/null || fail "not ready after the outage"
kill -TERM "${pids[-1]}"
wait "${pids[-1]}" || fail "the server did not stop cleanly after an outage"
echo "all well"
