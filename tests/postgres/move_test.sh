#!/bin/bash
# Stores move between directories and a database while servers and clients work, by the program itself.
set -eu
program=$1
torture=$2
# shellcheck source=tests/postgres/served_database.sh
source "$(dirname "$0")/served_database.sh"

# CODE of the refusal, its text, the command
refused() {
  local code=$1 says=$2 got=0
  shift 2
  "$@" >"$dir/refused.said" 2>&1 || got=$?
  [ "$got" = "$code" ] || fail "$* ended with $got, not $code"
  grep -q "$says" "$dir/refused.said" || fail "$* does not say: $says"
}
field() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

serve 1 --data "$dir/one"; first=$server
for n in 1 2 3; do "$program" enqueue mail greet "{\"n\":$n}" --server "$first" >/dev/null; done
claim='{"worker":"w","queues":["mail"],"lease":"1m"}'
job=$(curl -s "$first/v1/claim" -d "$claim")
id=$(echo "$job" | field id) token=$(echo "$job" | field token)

# Refusals change nothing.
refused 65 "is open in process" "$program" store copy "$dir/one" "$dir/one/../one"
refused 66 "holds no store" "$program" store copy "$dir/nowhere" "$url"
refused 64 "must be a directory" "$program" store copy "mysql://x" "$url"
refused 64 "max-fence" "$program" store copy "$dir/one" "$url" --max-fence 0s
"$program" enqueue mail greet '{"n":4}' --server "$first" >/dev/null || fail "refusals changed the source"

# A copy that leaves the source unchanged.
"$program" store copy --keep-source "$dir/one" "$dir/kept" 2>/dev/null | grep -q "copied to" || fail "keep-source"
"$program" verify --data "$dir/kept" | grep -q "4 jobs examined: sound" || fail "verify of the copy"
"$program" enqueue mail greet '{"n":5}' --server "$first" >/dev/null || fail "the source does not continue"
refused 65 "holds 4 jobs" "$program" store copy "$dir/one" "$dir/kept"

# The move. The server keeps running and reports the new place of the store.
"$program" store copy "$dir/one" "$url" --json >"$dir/moved.said" 2>/dev/null || fail "the move"
grep -q '"moved":true,"jobs":5' "$dir/moved.said" || fail "what the move says"
! grep -q hunter2 "$dir/moved.said" || fail "a password was shown"
refused 69 "has moved to postgres" "$program" enqueue mail greet '{"n":6}' --server "$first"
curl -s "$first/readyz" | grep -q "has moved to" || fail "readyz"
kill -TERM "${pids[0]}"
wait "${pids[0]}" || fail "server 1 did not stop cleanly"
refused 65 "has moved to postgres" "$program" serve --listen 127.0.0.1:0 --data "$dir/one"
! grep hunter2 "$dir/1.err" "$dir/refused.said" || fail "a password was shown"
"$program" verify --data "$dir/one" | grep -q "5 jobs examined: sound" || fail "verify of the source"

# A job started on the source is finished on the target, and once more two servers later.
serve 2 --store "$url"; second=$server
serve 3 --store "$url"; third=$server
curl -s "$second/v1/renew" -d "{\"worker\":\"w\",\"leases\":[{\"id\":$id,\"token\":$token}]}" >"$dir/renew.said"
grep -q '"lost":\[\]' "$dir/renew.said" || fail "renew: $(cat "$dir/renew.said")"
later=$(curl -s "$third/v1/claim" -d "$claim" | field token)
[ "$later" -gt "$token" ] || fail "token $later is not above $token"
"$program" store copy "$url" "$dir/two" >"$dir/back.said" 2>&1 || fail "the move back"
refused 69 "has moved to $dir/two" "$program" enqueue mail greet '{"n":7}' --server "$second"
refused 69 "has moved to $dir/two" "$program" enqueue mail greet '{"n":7}' --server "$third"
refused 65 "has moved to" "$program" store copy "$url" "$dir/three"
refused 65 "has moved to" "$program" store copy "$dir/two" "$url"
refused 65 "has moved to $dir/two" "$program" serve --listen 127.0.0.1:0 --store "$url"
if as psql -q -h "$dir/pg" -U postgres -c "SELECT mainspring.enqueue('mail', 'greet')" 2>"$dir/sql.said"; then
  fail "enqueue() by SQL still works"
fi
grep -q "has moved to $dir/two" "$dir/sql.said" || fail "what enqueue() by SQL says"
"$program" verify --store "$url" | grep -q "5 jobs examined: sound" || fail "verify of the database"
kill -TERM "${pids[1]}" "${pids[2]}"
for n in 1 2; do wait "${pids[$n]}" || fail "server $((n + 1)) did not stop cleanly"; done
serve 4 --data "$dir/two"
curl -s "$server/v1/finish" -d "{\"worker\":\"w\",\"results\":[{\"id\":$id,\"token\":$token,\"outcome\":\"complete\"}]}" >"$dir/finish.said"
grep -q '"status":"ok"' "$dir/finish.said" || fail "finish: $(cat "$dir/finish.said")"
"$program" jobs show "$id" --server "$server" | grep -q completed || fail "the job is not completed"

# Clients that work while the store moves, copies that are killed.
"$(dirname "$0")/../by_scale.sh" "$torture" --server "$program" --cycles scale=16:24:48 --seed 3 --wander "$url" >"$dir/torture.said" 2>&1 || fail "torture"
grep -q ", [1-9][0-9]* moves," "$dir/torture.said" || fail "nothing moved"
echo "all well"
