#!/bin/bash
# The commands against a real server, with their literal output. Usage: cli_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/script_test.sh"

# -- without a server -------------------------------------------------------------------------------
expect 0 'mainspring …' ms version
expect 0 '{"version":"…"}' ms version --json
expect 64 'mainspring COMMAND [FLAG…]…' ms
expect 64 'mainspring: "flyingfish": there is no such command of `mainspring`. See mainspring --help' ms flyingfish
expect 69 'mainspring: …
Start a server with `mainspring serve`, or name one with --server URL or MAINSPRING_SERVER.' ms jobs list --server http://127.0.0.1:1
expect 66 'mainspring: nowhere holds no store: there is no nowhere/mainspring.db
Name the data directory with --data; that of the Debian package is /var/lib/mainspring.' ms store info --data nowhere
expect 66 'mainspring: nowhere holds no store: there is no nowhere/mainspring.db
Name the data directory with --data; that of the Debian package is /var/lib/mainspring.' ms verify --data nowhere
expect 64 'mainspring: --listen "192.0.2.1:80": remote access requires TLS and a token…' ms serve --listen 192.0.2.1:80
expect 64 'mainspring: --data: a test server has a temporary store; leave it out' ms serve --test --data elsewhere
# A full disk at the target of a redirection is an error.
to_full_disk() { "$mainspring" "$@" >/dev/full; }
expect 74 'mainspring: standard output: No space left on device' to_full_disk --help
expect 64 'mainspring: --seed: only with --test' ms serve --seed 5
expect 64 'mainspring: --seed "-1": …' ms serve --test --seed -1
# It ends when its standard input is closed.
test_server() {
  coproc tests { exec "$mainspring" serve --test --seed 5; }
  local line pid=$tests_PID
  read -r line <&"${tests[0]}"
  echo "$line"
  exec {tests[1]}>&-
  wait "$pid"
}
expect 0 '{"url":"http://127.0.0.1:…","token":"mst_…","seed":5}' test_server
mkdir -p config/mainspring
echo 'log_level = "warn"' >config/mainspring/config.toml
expect 0 '{"name":"log_level","value":"warn","from":"file '"$work"'/config/mainspring/config.toml"…}' \
  bash -c "'$mainspring' config --json | grep log_level"
echo 'log_levl = "warn"' >config/mainspring/config.toml
expect 64 "mainspring: $work/config/mainspring/config.toml:1: there is no setting \"log_levl\". Did you mean log_level? \`mainspring config --explain\` lists them" ms config
rm config/mainspring/config.toml

# -- an empty server --------------------------------------------------------------------------------
start_server
expect 0 'no jobs' ms jobs list
expect 0 '' ms jobs list --json
expect 0 'no queues' ms queues list
expect 0 'no workers' ms workers
expect 0 'no dead jobs' ms dead list
expect 64 'mainspring: --since "soon": must be a duration ago…' ms dead list --since soon
expect 0 '0 jobs examined: sound' ms verify
expect 66 'mainspring: job 1: there is no such job' ms jobs show 1
expect 66 '{"error":{"code":"not_found","message":"job 1: there is no such job"}}' ms jobs show 1 --json
expect 69 "mainspring: --listen ${MAINSPRING_SERVER#http://}: …" ms serve --data other --log-level warn --listen "${MAINSPRING_SERVER#http://}"
expect 65 "mainspring: the store $work/data is open in process $server: …" ms serve --data "$work/data" --listen 127.0.0.1:0
expect 64 'mainspring: queue "q!": must be …' ms enqueue 'q!' k
# A write beyond the limit of file sizes is a failed write, with a message.
small_files() { (ulimit -f 100; exec "$mainspring" serve --data "$work/small" --listen 127.0.0.1:0 --log-level warn); }
expect 74 'mainspring: …' small_files
# The caller has closed the standard descriptors: nothing else gets their numbers.
closed() { (exec "$mainspring" "$@" <&- >&- 2>&-); }
expect 0 '' closed store backup "$work/closed" --data "$work/data"
expect 0 '…' ms store info --data "$work/closed"
expect 64 'mainspring: ARGS "1s": must be JSON; --wait takes its value as --wait=1s' ms enqueue q k --wait 1s
expect 64 'mainspring: ARGS: not JSON: …' ms enqueue q k '{}}'
expect 65 '…owns…stop that process first, or leave out --data to ask its server' ms verify --data data
expect 64 'mainspring: give exactly one of --cron, --every, --at' ms schedules set bad --queue r --kind n
expect 64 'mainspring: --concurrency 0: must be 1 to …, or none…' ms queues limit q --concurrency 0
expect 64 'mainspring: --concurrency "five": must be a whole number or none' ms queues limit q --concurrency five
expect 64 'mainspring: --rate "5": must be a number and a time, such as 100/1m, or none' ms queues limit q --rate 5
expect 64 'mainspring: --within 30d: must be …' ms breaker set b --within 30d

# -- jobs -------------------------------------------------------------------------------------------
expect 0 '1 available' ms enqueue mail welcome '{"to": "ann"}' --tag signup --header trace=abc --correlation-id c1
expect 0 '2 scheduled' ms enqueue mail welcome --delay 1h --priority 2
expect 0 '{"id":3,"state":"available"}' ms enqueue mail digest '[1,2]' --unique day --json
expect 0 '3 available (already existed)' ms enqueue mail digest '[1,2]' --unique day
expect 64 'mainspring: --unique-for 366d: must be 0s to 365d' ms enqueue mail digest --unique day --unique-for 366d
expect 0 '4 available' ms enqueue mail digest --idempotency-key once
expect 0 '4 available (already existed)' ms enqueue mail digest --idempotency-key once
expect 65 'mainspring: …idempotency…' ms enqueue mail digest '{"other":1}' --idempotency-key once
expect 0 'ID  QUEUE  KIND     STATE      ATTEMPT  AGE  DETAIL
 4  mail   digest   available     0/20  …
 3  mail   digest   available     0/20  …
 2  mail   welcome  scheduled     0/20  …  in 1h
 1  mail   welcome  available     0/20  …' ms jobs list
expect 0 'ID  QUEUE  KIND     STATE      ATTEMPT  AGE
 1  mail   welcome  available     0/20  …' ms jobs list --tag signup
expect 0 'ID  QUEUE  KIND    STATE      ATTEMPT  AGE
 4  mail   digest  available     0/20  …
Showing the newest 1; use --limit N or --all for more.' ms jobs list --limit 1
expect 0 'id              1
queue           mail
kind            welcome
state           available
attempt         0 of 20
priority        5
args            {"to": "ann"}
created_at      …
run_at          …
timeout         15m
tags            signup
headers         {"trace":"abc"}
correlation_id  c1' ms jobs show 1
expect 0 '{"id":1,…"args":{"to": "ann"}…}' ms jobs show 1 --json
expect 0 '1 available (no_worker): no recent worker takes jobs of queue mail' ms jobs why 1
expect 66 'mainspring: …there is no such job' ms jobs why 99
expect 0 '2 cancelled' ms jobs cancel 2 --reason 'not now'
expect 0 '{"id":2,"state":"cancelled","gate":"ended","why":"it is cancelled: not now"}' ms jobs why 2 --json
expect 0 '2 cancelled' ms jobs cancel 2
expect 0 '2 cancelled (ended): it is cancelled: not now; cancelled at …Z by local' ms jobs why 2
expect 0 '2 available' ms jobs retry 2
expect 66 'mainspring: job 99: there is no such job' ms jobs cancel 99
expect 0 '{"id":2,"state":"cancelled"…}' ms jobs cancel 2 --json

# -- queues -----------------------------------------------------------------------------------------
expect 0 'QUEUE  AVAILABLE  RUNNING  SCHEDULED  RETRYABLE  COMPLETED  CANCELLED  DEAD  OLDEST  DRAIN  STATE
mail           3        0          0          0          0          1     0  …' ms queues list
expect 0 'mail paused' ms queues pause mail
expect 0 '1 available (queue_paused): queue mail is paused by local since …; `mainspring queues resume mail` ends the pause' ms jobs why 1
expect 0 'queue                mail
paused               yes
…' ms queues show mail
expect 0 '{"name":"mail","paused":false}' ms queues resume mail --json
expect 0 'mail keeps completed jobs 1h, dead jobs default' ms queues set mail --retention-completed 1h
expect 0 'mail keeps completed jobs 1h, dead jobs 7d' ms queues set mail --retention-dead 7d
expect 0 'mail keeps completed jobs default, dead jobs 7d' ms queues set mail --retention-completed default
expect 66 'mainspring: there is no queue "nope"; a queue is made by the first job put into it' ms queues show nope

# -- work, many, wait, dead -------------------------------------------------------------------------
expect 0 'worker …3 completed, 0 failed attempts' ms work --queue mail --exec cat --drain
expect 0 'id              1
…state           completed
…result          {…"args":{"to": "ann"}…}
…' ms jobs show 1
expect 65 'mainspring: …' ms jobs retry 1
printf '{"args":{"n":%d}}\n' 1 2 3 >lines.jsonl
expect 0 '3 jobs enqueued, ids 5 to 7' ms enqueue nums add --many lines.jsonl
expect 64 'mainspring: bad.jsonl:2: …' bash -c "printf '{}\n{\"priority\":77}\n' >bad.jsonl; '$mainspring' enqueue nums add --many bad.jsonl"
expect 0 '{"completed":3,"failed":0,"dead":0,"snoozed":0,"deferred":0,"cancelled":0,"stale":0}' \
  ms work --queue nums --exec true --drain --json
"$mainspring" work --queue calc --exec "sh -c 'read -r job; case \$job in *sum*) echo 42;; *fail*) echo broken >&2; exit 65;; esac'" \
  --slots 2 >worker.log 2>&1 &
worker=$!
expect 0 '42' ms enqueue calc sum --wait=60s
expect 0 '{"id":…,"state":"completed",…"result":42…}' ms enqueue calc sum --wait --json
expect 1 'job 10 is dead: …broken' ms enqueue calc fail --wait=60s
expect 0 'FINGERPRINT       JOBS  KIND  FIRST  LAST  ERROR
…     1  fail …broken…' ms dead groups
fingerprint=$("$mainspring" dead groups --json | sed 's/.*"fingerprint":"\([0-9a-f]*\)".*/\1/')
expect 0 '{"fingerprint":"'"$fingerprint"'","kind":"fail","reason":"…","count":1,…}' ms dead groups --queue calc --json
expect 0 'no dead jobs' ms dead groups --queue mail
expect 0 'FINGERPRINT …fail …' ms dead groups --since 1h
expect 0 'no dead jobs' ms dead groups --since 2099-01-31T09:00:00Z
expect 64 '…--since "soon": must be a duration ago…' ms dead groups --since soon
expect 0 'TIME…NEW  DONE…FAIL…DEAD…WAIT50…RUN50…
…:00 …
total …' ms history --queue calc
expect 0 '{"queue":"calc","kind":"fail",…"total":{…"dead":1,…}}' ms history --queue calc --kind fail --json
expect 64 '…step 90m: must be whole minutes from 1m to 59m, or whole hours from 1h to 30d…' ms history --step 90m
expect 64 '…--since "soon": must be a duration ago…' ms history --since soon

# -- marks and saved views --------------------------------------------------------------------------
expect 0 'no marks' ms marks list
expect 0 'mark 1: v1.4 at 20…Z' ms mark v1.4
expect 0 'mark 2: database moved at 2026-01-31T09:00:00Z' ms mark 'database moved' --at 2026-01-31T09:00:00Z
expect 0 'MARK  AT…BY     SOURCE  TEXT
   1  20…  local  manual  v1.4
   2  2026-01-31T09:00:00Z…  local  manual  database moved' ms marks list
expect 0 '{"id":1,"at":"…","text":"v1.4","by":"local","source":"manual"}' ms marks list --limit 1 --json
expect 64 'mainspring: text "": must be 1 to 200 bytes without control characters' ms mark ''
expect 64 'mainspring: --at "soon": must be a time such as 2026-01-31T09:00:00Z' ms mark v2 --at soon
expect 64 'mainspring: at "9999-01-01T00:00:00Z": must be from 1970 to one day after the server'"'"'s time, …' \
  ms mark v2 --at 9999-01-01T00:00:00Z
expect 0 'mark 2: removed' ms marks remove 2
expect 66 'mainspring: there is no mark 2' ms marks remove 2
expect 0 'no saved views' ms views list
expect 0 'dead mails: jobs?state=dead&queue=mail' ms views save 'dead mails' jobs --query 'state=dead&queue=mail'
expect 0 '{"name":"dead mails","page":"jobs","query":"state=dead&queue=mail","by":"local","updated_at":"…"}' \
  ms views list --json
expect 64 'mainspring: page "https://evil.example": must be a path below /ui/, …' ms views save x https://evil.example
expect 0 'dead mails: removed' ms views remove 'dead mails'
expect 66 'mainspring: there is no saved view "dead mails"' ms views remove 'dead mails'

# -- metrics ----------------------------------------------------------------------------------------
metrics() { curl -sS "$@" "$MAINSPRING_SERVER/metrics"; }
expect 0 '…mainspring_build_info{version="…",store="sqlite"} 1
…mainspring_job_wait_seconds_bucket{queue="calc",le="…mainspring_queue_drain_seconds{queue="…process_open_fds …' metrics
expect 0 '# HELP …# TYPE mainspring_attempts counter
…mainspring_attempts_total{…
# EOF' metrics -H 'Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5'
if command -v promtool >/dev/null; then
  check_metrics() { metrics | promtool check metrics; }
  expect 0 '' check_metrics
else
  echo 'SKIPPED: promtool (Debian package prometheus) is not installed: names of metrics are not checked'
fi
expect 64 'mainspring: --fingerprint "x": must be 16 hex digits, …' ms dead redrive --fingerprint x
expect 64 'mainspring: --rate "fast": must be N/s, …' ms dead redrive --all --rate fast
expect 0 '1 job would be available again: 10' ms dead redrive --fingerprint "$fingerprint" --dry-run
expect 0 '{"dry_run":true,"jobs":0,"first":[]}' ms dead redrive --queue mail --dry-run --json
expect 0 '0 jobs available again' ms dead redrive --fingerprint 0123456789abcdef --rate 5/s
expect 1 'step 1: 1 job redriven: 1 died with the same error
mainspring: stopped: job 10 died again with fingerprint '"$fingerprint"' (…broken…); 1 job available again, 0 left dead' \
  ms dead redrive --fingerprint "$fingerprint" --canary
expect 1 '{"step":1,"redriven":1,"completed":0,"cancelled":0,"dead":1,"gone":0,"again":{"job":10,"fingerprint":"'"$fingerprint"'",…}}
{"redriven":1,"left":0,"stopped":"died_again"}' ms dead redrive --queue calc --canary --json
kill "$worker"
wait "$worker"
expect 0 'ID  QUEUE  KIND  ATTEMPTS  DIED  REASON  …
10  calc   fail         3  …broken' ms dead list
expect 0 'id              10
…broken…' ms dead show 10
expect 65 'mainspring: job 1 is completed, not dead; `mainspring jobs show 1` shows it' ms dead show 1
expect 64 'mainspring: no filter: give --queue, --kind, --tag, --fingerprint, or --all' ms dead redrive
expect 0 '1 job available again' ms dead redrive --queue calc
expect 0 '{"redriven":0}' ms dead redrive --all --json
expect 64 'mainspring: --rate "fast": must be N/s, …' ms dead redrive --all --rate fast --background
expect 64 'mainspring: --dry-run: cannot be given together with --background…' ms dead redrive --dry-run --background
expect 75 'job 11 is still scheduled after 10ms and continues: `mainspring jobs show 11`' ms enqueue calc sum --delay 1h --wait=10ms
expect 0 '11 scheduled (time, in …): scheduled: runs at …' ms why 11

# -- schedules, timers, leases ----------------------------------------------------------------------
expect 0 'no schedules' ms schedules list
expect 0 'no timers' ms timers list
expect 66 'mainspring: …nightly…' ms schedules show nightly
expect 64 'mainspring: …--cron…' ms schedules set nightly --cron '99 * * * *' --kind nightly
expect 64 'mainspring: …--time-zone…Mars…' ms schedules set nightly --cron '@daily' --time-zone Mars/Base --kind nightly
expect 0 'nightly created, version 1' ms schedules set nightly --cron '30 2 * 3 *' --time-zone Europe/Berlin \
  --queue reports --kind nightly --args '{"region":"eu"}' --tag t
expect 0 'nightly unchanged, version 1' ms schedules set nightly --cron '30 2 * 3 *' --time-zone Europe/Berlin \
  --queue reports --kind nightly --args '{"region":"eu"}' --tag t
expect 0 '{"name":"nightly","version":2,"outcome":"replaced"}' ms schedules set nightly --cron '30 2 * 3 *' \
  --time-zone Europe/Berlin --queue reports --kind nightly --json
expect 0 'SCHEDULE  WHEN        ZONE           QUEUE    KIND     NEXT  …LAST  FIRED  STATE
nightly   30 2 * 3 *  Europe/Berlin  reports  nightly  in …-         0' ms schedules list
expect 0 'name            nightly
when            30 2 * 3 *
time_zone       Europe/Berlin
state           active
next            …Z  (in …)
fired           0
queue           reports
…' ms schedules show nightly
expect 0 '{"name":"nightly","cron":"30 2 * 3 *"…"version":2,"paused":false…}' ms schedules show nightly --json
expect 0 'NOMINAL               Europe/Berlin        FIRES                 WHEN…NOTE
2026-03-28T01:30:00Z  2026-03-28 02:30:00  2026-03-28T01:30:00Z  …
2026-03-29T01:00:00Z  2026-03-29 03:00:00  2026-03-29T01:00:00Z  …shifted…' ms schedules preview nightly --from 2026-03-28T00:00:00Z --count 2
expect 0 '{"ticks":[{"nominal":"2026-01-01T00:00:00Z","fires_at":"2026-01-01T00:00:00Z"}]}' \
  ms schedules preview --cron @daily --from 2025-12-31T12:00:00Z --count 1 --json
expect 0 'nightly runs as job 12' ms schedules trigger nightly
expect 65 'mainspring: nightly did not run: overlap: job 12 has not ended' ms schedules trigger nightly
expect 0 '{"job":13}' ms schedules trigger nightly --overlap allow --json
expect 0 'NOMINAL  …TICKS  SOURCE   STATE    JOB  JOB STATE  WHY
…Z      1  trigger  fired     13  available
…Z      1  trigger  skipped    -  -          overlap: job 12 has not ended
…Z      1  trigger  fired     12  available' ms schedules ledger nightly
expect 0 'nightly paused' ms schedules pause nightly --reason audit
expect 0 '…state           paused
paused_reason   audit
…' ms schedules show nightly
expect 0 'nightly resumed' ms schedules resume nightly
printf '{"name":"%s","every":"1h","job":{"queue":"reports","kind":"hourly"},"paused":true}\n' a/1 a/2 >schedules.jsonl
expect 0 'a/1 created, version 1
a/2 created, version 1' ms schedules set --file schedules.jsonl
expect 0 'a/1 unchanged, version 1
a/2 unchanged, version 1' ms schedules set --file schedules.jsonl
expect 64 'mainspring: bad.jsonl:2: …' bash -c "head -1 schedules.jsonl >bad.jsonl; echo '{\"name\":\"b\"}' >>bad.jsonl; '$mainspring' schedules set --file bad.jsonl"
expect 0 '24 ticks fired, 0 skipped' ms schedules backfill a/1 --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z --overlap allow
expect 0 '{"fired":0,"skipped":24,"next":null}' ms schedules backfill a/1 --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z --overlap allow --json
# An unknown name does not keep the others from their change.
expect 66 'a/1 removed
…a/4…
a/2 removed
…a/3…' ms schedules remove a/3 a/1 a/4 a/2
expect 66 'mainspring: …a/1…' ms schedules remove a/1
expect 0 'orders created, version 1' ms timers set orders --queue timers --kind orders --every 5m --timeout 20m --margin 60s --handoff 30s --stopped
expect 0 'TIMER   QUEUE   KIND    TIMEOUT  FALLBACK  LAST RUN  RUNS  JOB  STATE
orders  timers  orders      20m  every 5m  -            0    -  stopped' ms timers list
expect 65 'mainspring: orders did not run: paused' ms timers wake orders
expect 0 'orders started, job 38' ms timers start orders
expect 0 'orders has timeout 5m' ms timers timeout orders 5m
expect 0 '…timeout         20m
timeout now     5m
…' ms timers show orders
expect 66 'mainspring: there is no timer "nosuch"' ms timers show nosuch
expect 64 'mainspring: --cron and --every: only one of them can be given' ms timers set t --queue q --kind k --every 5m --cron @daily
expect 0 'orders has its own timeout again' ms timers timeout orders own
expect 0 'orders stops after its batch' ms timers stop orders --reason 'wrong prices'
expect 65 'mainspring: nightly is a schedule, but not a continuous timer; …' ms timers show nightly
expect 0 'orders removed' ms timers remove orders
lease='{"holder":"h1","ttl":"1h"}'
token=$(curl -s "$MAINSPRING_SERVER/v1/leases/report%2Feu/acquire" --json "$lease" | sed 's/.*"token":\([0-9]*\).*/\1/')
expect 0 '…report/eu…h1…' ms leases list
expect 0 'name            report/eu
holder          h1
token           '"$token"'
since           …
expires_in      …' ms leases show report/eu
expect 66 'mainspring: …no-such-lease…' ms leases show no-such-lease
expect 0 '39 available' ms enqueue mail welcome --fence "report/eu:$token"
expect 65 'mainspring: …' ms enqueue mail welcome --fence "report/eu:$((token + 1))"
for id in 12 13 38 39; do ms jobs cancel "$id" >/dev/null; done

# -- the store --------------------------------------------------------------------------------------
expect 0 '39 jobs examined: sound' ms verify
expect 0 "directory       $work/data
open in         process $server
schema          …
jobs kept       39
queues          5
schedules       1
leases          2
sessions        0" ms store info --data "$work/data"
expect 0 "$work/data copied to copy, … bytes" ms store backup --data "$work/data" copy
expect 65 'mainspring: …' ms store backup --data "$work/data" copy
expect 0 '39 jobs examined: sound' ms store check --data copy
expect 0 'schema …, nothing to do' ms store migrate --data copy
expect 0 'copy: … bytes, … before' ms store compact --data copy
expect 65 'mainspring: …process…' ms store compact --data "$work/data"
expect 0 '39 jobs examined: sound' ms store check --data copy
expect 65 'mainspring: …process…' ms verify --data "$work/data"

# -- events: over a socket in the file system, which nothing else takes while the server is dead -------
kill "$server"
wait "$server"
serve_socket() {
  rm -f server.json
  "$mainspring" serve --data "$work/data" --listen "unix:$work/events.sock" --json --log-level error \
    >server.json 2>>server.log &
  server=$!
  await test -s server.json
}
serve_socket
MAINSPRING_SERVER=unix:$work/events.sock
expect 0 '20… gap: restart' ms events --after 0-0 --limit 1
expect 0 '{"id":"…","type":"gap","at":"…","reason":"restart"}' ms events --after 0-0 --limit 1 --json
expect 64 'mainspring: --type "began": must be …' ms events --type began
expect 64 'mainspring: job "x": must be a whole number from 1' ms events --job x
expect 69 'mainspring: …' ms events --server http://127.0.0.1:1
ms events --queue streamed --limit 2 >events.txt 2>events.err &
listener=$!
listens() {
  curl -s --unix-socket events.sock http://localhost/metrics | contains '^mainspring_event_streams 1'
}
await listens
expect 0 '…available' ms enqueue streamed look
await test -s events.txt
{ kill -9 "$server" && wait "$server"; } 2>/dev/null
serve_socket
wait "$listener"
expect 0 '20…Z  enqueued … streamed/look
20…Z  gap: restart' cat events.txt
expect 0 'mainspring: …; trying again…' cat events.err

# -- kill -9, then the same again; a graceful stop --------------------------------------------------
{ kill -9 "$server" && wait "$server"; } 2>/dev/null
start_server
expect 0 '{"id":1,…"state":"completed"…}' ms jobs show 1 --json
expect 0 '40 jobs examined: sound' ms verify

# -- a canary that fails again, with a retry in minutes ----------------------------------------------
echo 'echo "{\"error\":\"broken\",\"retry_after\":\"0s\"}" >&3; exit 1' >soon.sh
echo 'echo "{\"error\":\"broken\"}" >&3; exit 1' >late.sh
expect 0 '…available' ms enqueue flaky look --max-attempts 2
"$mainspring" work --queue flaky --exec "sh soon.sh" >worker.log 2>&1 &
worker=$!
await sh -c "'$mainspring' dead list --queue flaky | grep broken"
kill "$worker"
wait "$worker"
"$mainspring" work --queue flaky --exec "sh late.sh" >worker.log 2>&1 &
worker=$!
expect 1 'step 1: 1 job redriven: 1 failed with the same error
mainspring: stopped: attempt 3 of 4 of job … failed again with fingerprint … (broken); 1 job available again, 0 left dead' \
  ms dead redrive --queue flaky --canary
kill "$worker"
wait "$worker"
expect 0 'job … redrives them
progress: mainspring jobs show …' ms dead redrive --queue flaky --rate 5/m --background
await sh -c "'$mainspring' jobs list --queue mainspring.redrives --state completed | grep redrive"
expect 0 '{"job":…,"duplicate":false}' ms dead redrive --queue flaky --background --json
await sh -c "'$mainspring' jobs list --queue mainspring.redrives --state completed --json | grep -c redrive | grep 2"

# -- search, edit, clone, delete, bulk ----------------------------------------------------------------
order=$("$mainspring" enqueue shop order '{"order":4711}' --tag vip --json | sed 's/.*"id":\([0-9]*\).*/\1/')
expect 0 "ID  QUEUE  KIND   STATE      ATTEMPT  AGE
$order  shop   order  available     0/20  …" ms jobs list --search 'args.order=4711 tag:vip' --since 1d
expect 0 'no jobs' ms jobs list --search 'args.order=4711 -queue:shop' --state available,dead
expect 64 'mainspring: --search: unknown term "colour:": must be one of id:, …' ms jobs list --search colour:red
expect 64 'mainspring: --state "ready": must be …' ms jobs list --state dead,ready
expect 64 'mainspring: --since "soon": must be a duration ago…' ms jobs list --since soon
expect 0 "$order edited, scheduled" ms jobs edit "$order" --args '{"order":4712}' --priority 1 --run-at 2100-01-01T00:00:00Z
expect 64 'mainspring: nothing to change: …' ms jobs edit "$order"
expect 64 'mainspring: --priority "10": must be a number from 0 to 9' ms jobs edit "$order" --priority 10
expect 65 "mainspring: job $order is scheduled: only a job that has ended can be deleted; …" ms jobs delete "$order"
expect 0 '{"id":…,"state":"available","cloned_from":'"$order"'}' ms jobs clone "$order" --args '{"order":4713}' --json
expect 64 'mainspring: no filter: give --queue, …' ms bulk cancel
expect 0 '2 jobs would be changed: …, '"$order" ms bulk cancel --search 'queue:shop kind:order' --dry-run
expect 0 'bulk operation … started
progress: mainspring bulk show …' ms bulk cancel --queue shop --reason 'wrong shop'
await sh -c "'$mainspring' bulk list | grep 'cancel  done'"
expect 0 'ID  ACTION  STATE  MATCHED  CHANGED  SKIPPED  FAILED  AGE  BY     FILTER
…  cancel  done         2        2        0       0  …  local  {"queue":"shop"}' ms bulk list
expect 0 '{"id":…,"state":"done","action":"cancel","filter":{"queue":"shop"},"reason":"wrong shop","matched":2,"changed":2,…}' ms bulk list --json
expect 0 "$order deleted" ms jobs delete "$order"
expect 66 "mainspring: job $order: …" ms jobs show "$order"
kill "$server"
wait "$server"
stopped=$?
expect 0 '' test "$stopped" = 0
server=''
expect 0 '45 jobs examined: sound' ms verify --data "$work/data"

# -- texts ------------------------------------------------------------------------------------------
expect 0 'mainspring jobs list [FLAG…]…' ms help jobs list
expect 0 '' bash -c "'$mainspring' completion bash | bash -n"
cat >offers.sh <<EOF
source <('$mainspring' completion bash)
mainspring() { [[ \$* == 'complete queues' ]] && printf '%s\n' mail mail:low photos; }
COMP_WORDS=(mainspring "\$@")
COMP_CWORD=\$#
_mainspring
echo "\${COMPREPLY[*]}"
EOF
# offers WORDS WORD…: after these words, split as bash splits them, Tab offers WORDS.
offers() { expect 0 "$1" bash offers.sh "${@:2}"; }
states='waiting scheduled available running completed retryable cancelled dead'
offers 'list show why cancel retry take-back edit clone delete' jobs ''
offers 'auto always never' jobs list --color ''
offers 'auto always never' --color ''
offers 'mail mail:low photos' jobs list --queue ''
offers 'mail mail:low' queues pause m
offers 'mail mail:low photos' queue pause ''
offers 'low' queues pause mail :
offers 'low' queues pause mail : l
offers 'low' jobs list --queue = mail : l
offers 'photos' jobs list --queue = p
offers 'mail mail:low photos' jobs list --queue =
offers 'photos' queues pause mail : low p
offers "$states" jobs list --state ''
offers 'dead' jobs list --state d
offers 'dead,completed dead,cancelled' jobs list --state dead,c
offers 'running…parked…' workflow list --state ''
offers '--token-file' host run a --wait --token
offers 'bash zsh fish' completion ''
offers 'list limit' help queue l
offers '' help jobs list ''

echo "$passed passed, $failed failed"
((failed == 0))
