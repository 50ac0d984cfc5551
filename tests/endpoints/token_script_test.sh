#!/bin/bash
# Tokens, scopes and the audit, as operators and teams use them: real servers, the command line, curl.
# Usage: token_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/../../src/cli/script_test.sh"
exec 2>&1

serve() {
  rm -f server.json
  "$mainspring" serve --data data --listen 127.0.0.1:0 --json --log-level info "$@" >server.json 2>>server.log &
  server=$!
  await test -s server.json
  MAINSPRING_SERVER=$(sed 's/.*"url":"\([^"]*\)".*/\1/' server.json)
  export MAINSPRING_SERVER
}
stop_server() {
  kill "$server"
  wait "$server"
  server=''
}
# as TOKEN COMMAND…: runs it with that token; none = without.
as() {
  local token=$1
  shift
  if [[ $token == none ]]; then "$@"; else MAINSPRING_ACCESS_TOKEN=${!token} "$@"; fi
}
status_of() { curl -s -o /dev/null -w '%{http_code}' --max-time 20 "$@"; }
denied='mainspring: …'

# -- the first token is created in the data directory -------------------------------------------------------
admin=$("$mainspring" token create admin --scope admin --scope read --scope define-exec --data data)
expect 0 '47' bash -c "printf %s '$admin' | wc -c"
expect 65 'mainspring: token admin exists: revoke it first, or choose another name' ms token create admin --scope read --data data
expect 64 'mainspring: scope "fly": must be all, VERB or VERB=PATTERN, …' ms token create x --scope fly --data data
expect 64 'mainspring: --scope: must be given, …' ms token create x --data data
expect 64 'mainspring: …local…' ms token create local --scope read --data data
expect 66 '…' ms token list --data nowhere
expect 0 'TOKEN  STATE  EXPIRES  RATE  MADE BY  SCOPES
admin  good   never       -  local    admin read define-exec' ms token list --data data

# -- other addresses are not served without TLS and a token ------------------------------------------------------
expect 64 'mainspring: --listen "0.0.0.0:0": …no TLS:…no token:…mainspring token create admin…' ms serve --data fresh --listen 0.0.0.0:0
expect 64 'mainspring: --listen "0.0.0.0:0": …no TLS:…' ms serve --data data --listen 0.0.0.0:0

# -- with --require-token every request needs a token ------------------------------------------------------------
serve --require-token
expect 65 'mainspring: …owns…; while a server runs, ask it: leave out --data' ms token list --data data
expect 77 "$denied" ms queues list
expect 0 'no queues' as admin ms queues list
for header in 'X: y' 'Authorization:' 'Authorization: Bearer' 'Authorization: Bearer ' 'Authorization: Basic Og==' \
  "Authorization: Bearer ${admin%?}" "Authorization: Bearer ${admin}A" "Authorization: $admin"; do
  expect 0 401 status_of -H "$header" "$MAINSPRING_SERVER/v1/queues"
done
expect 0 200 status_of -H "Authorization: Bearer $admin" "$MAINSPRING_SERVER/v1/queues"
expect 0 200 status_of -u "anybody:$admin" "$MAINSPRING_SERVER/v1/queues"
expect 0 200 status_of "$MAINSPRING_SERVER/healthz"

# -- a token can only grant scopes that it has ---------------------------------------------------------------------
expect 77 'mainspring: scope enqueue=mails: "admin" lacks it: …' as admin ms token create web --scope enqueue=mails
stop_server
root=$("$mainspring" token create root --data data --scope admin --scope enqueue --scope work --scope lease --scope read \
  --scope read:payload --scope result --scope schedule --scope metrics --scope define-exec)
serve --require-token --audit all
web=$(as root ms token create web --scope enqueue=mails --scope result=mails)
worker=$(as root ms token create worker --scope 'work=mail*' --scope 'read=mail*' --expires 90d)
oncall=$(as root ms token create oncall --scope read)
metrics=$(as root ms token create metrics --scope metrics --rate 5)

# -- a token can do only what its scopes allow -----------------------------------------------------------------
expect 0 '…1…' as web ms enqueue mails hello '{"secret":"s3cret"}'
expect 77 'mainspring: …enqueue=photos…' as web ms enqueue photos hello '{}'
expect 0 '…2…' as root ms enqueue photos hello '{}'
expect 66 'mainspring: …there is no such job' as web ms jobs show 2
expect 77 "$denied" as web ms jobs list
expect 77 "$denied" as web ms queues pause mails
expect 0 '{…"args":null…"masked":true…}' as oncall ms jobs show 1 --json
expect 1 '' bash -c "MAINSPRING_ACCESS_TOKEN=$oncall '$mainspring' jobs show 1 --json | grep s3cret"
expect 0 '…s3cret…' as root ms jobs show 1
expect 0 '…2…
…1…' as oncall ms jobs list
expect 77 "$denied" as oncall ms jobs cancel 1
expect 77 "$denied" as oncall ms token list
expect 77 "$denied" as oncall ms audit list
expect 0 200 status_of -H "Authorization: Bearer $metrics" "$MAINSPRING_SERVER/metrics"
expect 77 "$denied" as metrics ms queues list
expect 77 'mainspring: "worker" needs the scope "read=photos"; --drain must read the counts of the queue' as worker ms work --queue photos --exec cat --drain
expect 77 '…mainspring: "worker" needs the scope "work=photos"' as worker ms work --queue photos --exec cat
expect 0 '…1 completed…' as worker ms work --queue mails --exec cat --drain
expect 0 '{"id":1,"queue":"mails","state":"completed","result":…}' as web ms jobs show 1 --json
# Over one connection, and again: a slow machine sends fewer than 5 requests in some seconds.
limited() {
  curl -s -o /dev/null -w '%{http_code}\n' -H "Authorization: Bearer $metrics" "$MAINSPRING_SERVER/metrics?[1-50]" |
    contains '^429$'
}
await limited

# -- a token is shown once, and not to child programs -------------------------------------------------------
expect 0 '…web…worker…' as root ms token list
expect 1 '' bash -c "MAINSPRING_ACCESS_TOKEN=$root '$mainspring' token list --json | grep -F '$web'"
expect 0 '…3…' as web ms enqueue mails hello '{}'
expect 0 '…1 completed…' as worker ms work --queue mails --once --exec 'sh -c "echo \"token ${MAINSPRING_ACCESS_TOKEN:-none}\""'
expect 0 '…token none…' as root ms jobs show 3

# -- revoking works at once, also for waiting requests ---------------------------------------------------------
curl -s --max-time 50 -o parked -w '%{http_code}' -H "Authorization: Bearer $worker" "$MAINSPRING_SERVER/v1/claim" \
  --json '{"worker":"w","queues":["mails"],"max":1,"wait":"45s"}' >parked.status &
parked=$!
parked_now() { as root curl -s -H "Authorization: Bearer $root" "$MAINSPRING_SERVER/metrics" | contains '^mainspring_parked_claims 1'; }
await parked_now
expect 0 'worker revoked' as root ms token revoke worker
expect 66 'mainspring: …' as root ms token revoke nobody
wait $parked
expect 0 '{"jobs":[]}' cat parked
expect 77 '…mainspring: the token is not valid…
Check --token-file or MAINSPRING_ACCESS_TOKEN.…' as worker ms work --queue mails --exec cat --drain
expect 0 '…worker   revoked…' as root ms token list
worker2=$(as root ms token create worker --scope work=mails --scope read=mails)
expect 0 'yes' bash -c "[[ -n '$worker2' && '$worker2' != '$worker' ]] && echo yes"
expect 77 '…mainspring: the token is not valid…' as worker ms work --queue mails --exec cat --drain

# -- the audit ---------------------------------------------------------------------------------------------------
expect 0 'mails paused' as root ms queues pause mails
expect 0 'mails resumed' as root ms queues resume mails
expect 0 'SEQ  AT …root  127.0.0.1…resume_queue  queue/mails  {"paused":true…} -> {"paused":false…}…' as root ms audit list --limit 1
expect 0 '…"who":"web"…"action":"enqueue"…' as root ms audit list --who web --limit 1 --json
expect 0 '…create_token…token/web…' as root ms audit list --object token/web
expect 0 'no records' as root ms audit list --object token/nobody
head=$(as root ms audit head)
expect 0 '…: sound, head …' as root ms audit verify
expect 0 'mails paused' as root ms queues pause mails
expect 0 '…: sound, head …' as root ms audit verify --expect "$head"
expect 1 '…not the one that was expected' as root ms audit verify --expect "${head%%:*}:$(printf '0%.0s' {1..64})"
expect 64 'mainspring: --expect "x": must be SEQ:HASH, …' as root ms audit verify --expect x
stop_server

# A record changed by hand is detected, also by the end of the chain that was saved elsewhere.
expect 0 '' sqlite3 data/mainspring.db "DROP TRIGGER audit_never_changes; UPDATE audit SET who = 'nobody' WHERE seq = 2"
serve --require-token
expect 1 'audit record 2: it, or the one before it, was altered' as root ms audit verify
expect 1 '…audit record 2…' as root ms verify
stop_server

# -- without --require-token local callers may do everything, but a bad token is refused -----------------------
serve
expect 0 '…mails…' ms queues list
expect 77 "$denied" as worker ms queues list
expect 0 '401' status_of -H 'Authorization: Bearer wrong' "$MAINSPRING_SERVER/v1/queues"
expect 0 'mails resumed' ms queues resume mails
expect 0 '…  local  127.0.0.1  resume_queue  queue/mails…' ms audit list --limit 1
stop_server

echo "$passed passed, $failed failed"
((failed == 0))
