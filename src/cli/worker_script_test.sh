#!/bin/bash
# lease run, work --slot and work --timer against a real server. Usage: worker_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/script_test.sh"

# ended CODE PID: checks that a background process ends with CODE.
ended() {
  local status=0
  wait "$2" || status=$?
  expect "$1" '' sh -c "exit $status"
}

# claims PID: the server knows the worker of this process, so its signal handlers are installed.
claims() { ms workers --json | contains "\"pid\":$1\b"; }

start_server

# -- lease run --------------------------------------------------------------------------------------
expect 7 'report/eu has a token: yes' ms lease run report/eu -- sh -c 'echo "$MAINSPRING_LEASE_NAME has a token: ${MAINSPRING_LEASE_TOKEN:+yes}"; exit 7'
expect 0 'from its input' bash -c "echo 'from its input' | '$mainspring' lease run report/eu -- cat"
# A program that was started by its path is on the PATH of what it starts, after everything else.
expect 0 'mainspring …' env PATH=/usr/bin:/bin "$mainspring" lease run named -- mainspring version
expect 0 "/usr/bin:/bin:$(dirname "$(readlink -f "$mainspring")")" env PATH=/usr/bin:/bin "$mainspring" lease run named -- sh -c 'echo "$PATH"'
expect 0 "/usr/bin:/bin:${mainspring%/*}" env PATH="/usr/bin:/bin:${mainspring%/*}" "$mainspring" lease run named -- sh -c 'echo "$PATH"'
expect 143 '' ms lease run a -- sh -c 'kill -TERM $$'
expect 66 'mainspring: program "no-such-program": not found…' ms lease run a -- no-such-program
expect 64 'mainspring: --exec "…": no executable program …' ms work --queue q --exec "$work"
expect 66 '…' ms leases show never

mkfifo go
"$mainspring" lease run held -- sh -c 'touch began; read -r line <go; exit 3' &
first=$!
await test -e began
expect 75 'mainspring: lease held is held by …' ms lease run held -- echo never
"$mainspring" lease run held --wait 60s -- touch second &
second=$!
echo >go
ended 3 $first
ended 0 $second
expect 0 '' test -e second

# A holder that was stopped for longer than its lease learns the loss from the server, also if its command has ended.
mkfifo thaw
"$mainspring" lease run frozen --ttl 1s -- sh -c 'touch frozen; read -r line <thaw; touch thawed' &
frozen=$!
await test -e frozen
kill -STOP $frozen
expect 0 '' ms lease run frozen --wait 60s -- true
echo >thaw
await test -e thawed
kill -CONT $frozen
ended 75 $frozen

# A signal is passed on, and the lease is free afterwards.
"$mainspring" lease run signalled -- sh -c 'trap "touch told; exit 9" TERM; touch began2; while :; do sleep 0.05; done' &
signalled=$!
await test -e began2
kill -TERM $signalled
ended 9 $signalled
expect 0 '' test -e told
expect 0 '' ms lease run signalled -- true

# A holder that is stopped beyond its lease ends its command when it continues. The lease is long
# enough for a slow start of the command.
"$mainspring" lease run stopped --ttl 8s -- sh -c 'touch began3; exec sleep 60' 2>stopped.log &
stopped=$!
await test -e began3
kill -STOP $stopped
expect 0 'mine' ms lease run stopped --wait 60s -- echo mine
kill -CONT $stopped
ended 75 $stopped
expect 0 'mainspring: lease stopped was lost; the command was ended' cat stopped.log

# -- step run ---------------------------------------------------------------------------------------
# Each step runs once, although the program dies after each step.
cat >steps.sh <<'END'
set -e
payment=$("$MS" step run charge -- sh -c 'echo charged >>log; echo "{\"id\": \"c1\"}"')
[ "$MAINSPRING_ATTEMPT" -gt 1 ] || exit 75
text=$("$MS" step run pack -- sh -c 'echo packed >>log; echo some text')
[ "$MAINSPRING_ATTEMPT" -gt 2 ] || kill -9 $$
"$MS" step run fails -- sh -c 'echo failed >>log; exit 9' || code=$?
"$MS" step run one -- sh -c 'echo 1' >one & "$MS" step run two -- sh -c 'echo 2' >two
wait
echo "{\"payment\": $payment, \"text\": \"$text\", \"code\": $code, \"both\": [$(cat one two | tr '\n' ,)0]}"
END
expect 0 '1…' ms enqueue steps k
MS=$mainspring "$mainspring" work --queue steps --exec 'sh steps.sh' --retry-after 1ms --drain 2>steps.err
expect 0 '…"result":{"payment": {"id": "c1"}, "text": "some text", "code": 9, "both": [1,2,0]}…' ms jobs show 1 --json
expect 0 'charged packed failed ' sh -c "tr '\n' ' ' <log"

# After a worker is killed between two steps, another one runs only the remaining steps. Its lease
# must not end before the kill: the second attempt does not touch `between`.
cat >resume.sh <<'END'
set -e
"$MS" step run one -- sh -c 'echo "one by $MAINSPRING_ATTEMPT" >>resumed; echo 1'
"$MS" step run two -- sh -c 'echo "two by $MAINSPRING_ATTEMPT" >>resumed; echo 2'
[ "$MAINSPRING_ATTEMPT" -gt 1 ] || { touch between; exec sleep 60; }
"$MS" step run three -- sh -c 'echo "three by $MAINSPRING_ATTEMPT" >>resumed; echo 3'
END
expect 0 '…' ms enqueue resumed k
MS=$mainspring "$mainspring" work --queue resumed --exec 'sh resume.sh' --lease 8s 2>killed.log &
killed=$!
await test -e between
{ kill -9 $killed && wait $killed; } 2>/dev/null
await sh -c "'$mainspring' jobs show 2 --json | grep -qv '\"state\":\"running\"'"
ms jobs retry 2 >/dev/null
MS=$mainspring "$mainspring" work --queue resumed --exec 'sh resume.sh' --drain 2>resumed.log
expect 0 'one by 1, two by 1, three by 2, ' sh -c "sed 's/$/,/' resumed | tr '\n' ' '"
expect 0 '…"state":"completed"…' ms jobs show 2 --json
expect 64 'mainspring: …step run: must be run by the program of a job…' ms step run a -- true
expect 64 '…' ms step run 'no name' -- true

# -- the queues that a worker reports ---------------------------------------------------------------
expect 0 'mainspring: warning: queue "typo" has never been used: check its name. Jobs that are enqueued to it later are claimed.
worker … takes jobs of typo from …0 completed, 0 failed attempts' ms work --queue typo --exec cat --drain
ms schedules set nightly --every 1h --queue reports --kind k >/dev/null
expect 0 'worker … takes jobs of reports from …' ms work --queue reports --exec cat --drain
ms enqueue failing k --max-attempts 2 >/dev/null
# A worker that is slower than the delay does not print that it waits.
expect 0 'worker …0 completed, 2 failed attempts' \
  ms work --queue failing --exec 'sh -c "exit 1"' --retry-after 1s --drain
ms enqueue failing k --max-attempts 2 >/dev/null
"$mainspring" work --queue failing --exec 'sh -c "exit 1"' --retry-after 1h --drain >failing.log 2>&1 &
failing=$!
await grep -q 'Waiting for the next attempt' failing.log
kill -TERM $failing
ended 0 $failing
expect 0 'worker …
Waiting for the next attempt of 1 failed job: it runs at 20…Z, in … Ctrl-C stops without them.
…0 completed, 1 failed attempt' cat failing.log

# -- workers quiet, resume, stop --------------------------------------------------------------------
"$mainspring" work --queue ordered --exec 'sh -c "echo ran >>ordered"' --slots 2 --worker-version 1.4 >ordered.out 2>ordered.err &
ordered=$!
waits() { "$mainspring" workers | contains ' waiting  *ordered'; }
await waits
expect 66 'mainspring: NAME "missing-*": no connected worker has this id or host; nothing was changed. …' ms workers quiet 'missing-*'
# Workers that have ended are listed for five minutes and get the command too.
expect 0 '… on …, pid …: quiet…' ms workers quiet "$(hostname)"
expect 0 '… quiet …ordered…' ms workers
ms enqueue ordered k >/dev/null
expect 1 '' test -e ordered
expect 0 '…"command":null}' ms workers resume '*' --json
await test -e ordered
expect 0 '…: stopping…' ms workers stop "$("$mainspring" workers --json | grep '"ordered"' | sed 's/.*"id":"\([^"]*\)".*/\1/')"
ended 0 $ordered
expect 0 '…Stopping at the request of an operator…' cat ordered.err
expect 0 '1 completed, 0 failed attempts' cat ordered.out
expect 0 '…program worker 1.4…' ms marks list

# -- work --slot ------------------------------------------------------------------------------------
for _ in 1 2 3; do ms enqueue mails send >/dev/null; done
expect 0 '3 handled, … % busy in … s: no job would fit any more; … s left' ms work --queue mails --exec cat --slot 8s --estimate 50ms
ms enqueue mails send >/dev/null
# These end when they first find the queue empty: their slots have no time for another pause.
expect 0 '{"end":"empty","handled":1,"given_back":0,"completed":1,"failed":0,"dead":0,"busy_share":…,"waited_ms":0,"ran_ms":…,"slack_ms":…}' \
  ms work --queue mails --exec cat --slot 60s --estimate 50ms --poll --idle 60s --name counted --json
expect 0 '0 handled, 0.0 % busy in … s: the queue is empty, and no time is left to wait; … s left' \
  ms work --queue mails --exec cat --slot 60s --estimate 50ms --tolerance 1 --poll --idle 60s --name polled
# The values of the rule are settings too; a misspelt one is named.
expect 0 '0 handled, 0.0 % busy in … s: the queue is empty, and no time is left to wait; … s left' \
  env MAINSPRING_SLOT_ESTIMATE=50ms MAINSPRING_SLOT_TOLERANCE=1 MAINSPRING_SLOT_IDLE=60s \
  "$mainspring" work --queue mails --exec cat --slot 60s --poll --name settings
expect 64 'mainspring: slot_tolerance "x": must be a number such as 2.5' env MAINSPRING_SLOT_TOLERANCE=x \
  "$mainspring" work --queue mails --exec cat --slot 60s --poll
expect 0 '…WARN an unknown variable is ignored name=MAINSPRING_SLOT_ESTIMAT did_you_mean=MAINSPRING_SLOT_ESTIMATE…' \
  env MAINSPRING_SLOT_ESTIMAT=50ms "$mainspring" work --queue mails --exec cat --drain
expect 0 '…"kinds":{"send":{"n":…' ms leases show slot/default
"$mainspring" work --queue none --exec cat --slot 30s --name long >long.out 2>long.err &
long=$!
await ms leases show slot/long
expect 0 '…nothing done: slot long is held by …' ms work --queue none --exec cat --slot 30s --name long
"$mainspring" work --queue none --exec cat --slot 30s --name long --standby --json >standby.out 2>standby.err &
standby=$!
kill -TERM $long
ended 0 $long
expect 0 '0 handled, 0.0 % busy in … s: stopped by a signal; … s left' cat long.out
await claims $standby
kill -TERM $standby
ended 0 $standby
expect 0 '{"end":"stopped",…' cat standby.out

# -- work --timer -----------------------------------------------------------------------------------
# A batch reports another running batch. The lock ends with its process, however the process dies.
cat >batch.sh <<'END'
#!/bin/bash
exec 9>>lock
flock -n 9 || echo "$MAINSPRING_TOKEN beside another" >>overlaps
echo "$MAINSPRING_TOKEN $MAINSPRING_TIMER_NAME $MAINSPRING_BATCH_MAX" >>batches
((MAINSPRING_REMAINING_MS >= 0 && MAINSPRING_BATCH >= 1)) || echo "bad environment" >>overlaps
read -rt 0.01 <> <(:)
exit 0
END
chmod +x batch.sh
batches_after() { (($(wc -l <batches) > $1 + 5)); }
# The lease is longer than a busy machine stops a worker: else two batches run at the same time.
timer_worker() {
  exec "$mainspring" work --queue timers --timer --batch 7 --exec ./batch.sh --lease 8s \
    --log-level error >>workers.log 2>&1
}
ms timers set outbox --queue timers --kind outbox --every 1s --max-attempts 1 --timeout 1500ms --margin 500ms --handoff 500ms >/dev/null
timer_worker &
one=$!
timer_worker &
two=$!
ms timers wake outbox >/dev/null
await batches_after 0
expect 0 '… outbox 7' tail -n 1 batches
# After a kill at any moment another run continues.
for _ in 1 2 3; do
  read -rt 0.7 <> <(:)
  { kill -9 $one && wait $one; } 2>/dev/null
  await batches_after "$(wc -l <batches)"
  timer_worker &
  one=$!
  read -rt 0.4 <> <(:)
  { kill -9 $two && wait $two; } 2>/dev/null
  await batches_after "$(wc -l <batches)"
  timer_worker &
  two=$!
done
expect 1 '' test -e overlaps
# Tokens never go back.
expect 0 '' bash -c "cut -d' ' -f1 batches | sort -nc"
# The kill switch: no batch starts until the timer is started again.
ms timers stop outbox --reason 'wrong prices' >/dev/null
idle() { ! ms leases show timer/outbox; }
await idle
count=$(wc -l <batches)
ms timers start outbox >/dev/null
await batches_after "$count"
await claims $one
await claims $two
kill $one $two
ended 0 $one
ended 0 $two

# -- work --job -------------------------------------------------------------------------------------
# A program defers its job; the job is then claimed by its id.
aside=$(ms enqueue pay charge)
aside=${aside%% *}
expect 0 'worker …0 completed, 0 failed attempts, 1 deferred' \
  ms work --queue pay --exec 'sh -c "echo {\\\"defer\\\":\\\"asked\\\"} >&3"' --once
expect 0 '…waiting…deferred…asked…' ms jobs show "$aside"
expect 64 'mainspring: --job: cannot be given with --drain' ms work --queue pay --job "$aside" --exec true --drain
expect 66 '…' ms work --queue mail --job "$aside" --exec true
expect 0 'worker …1 completed, 0 failed attempts' ms work --queue pay --job "$aside" --exec true
expect 65 '…only a job that has not ended can be claimed…' ms work --queue pay --job "$aside" --exec true

# -- work --once ------------------------------------------------------------------------------------
# One job, however many wait and however short they are.
for i in 1 2 3 4 5; do ms enqueue once k >/dev/null; done
expect 0 'worker …1 completed, 0 failed attempts' ms work --queue once --exec true --once
expect 0 '…"available":4,…"completed":1,…' ms queues show once --json
expect 0 'worker …1 completed, 0 failed attempts' ms work --queue once --exec true --once --slots 4

# A program that cannot be started ends a worker that would end by itself. Its job is there, without a lost attempt.
printf '#!/no/such/interpreter\n' >broken.sh
chmod +x broken.sh
broken=$(ms enqueue broken k)
broken=${broken%% *}
for how in --drain --once '--slot 30s' "--job $broken"; do
  # shellcheck disable=SC2086
  expect 75 '…broken.sh…; its job was given back' ms work --queue broken --exec ./broken.sh $how
  expect 0 '…"state":"available"…"attempt":0,…' ms jobs show "$broken" --json
done

# -- resource use of a program ----------------------------------------------------------------------
cat >heavy.sh <<'END'
x=$(head -c 52428800 /dev/zero | tr '\0' a)
echo '{"error":"too much work"}' >&3
exit 3
END
heavy=$(ms enqueue heavy k --max-attempts 1)
heavy=${heavy%% *}
expect 0 '…0 completed, 1 failed attempt' ms work --queue heavy --exec 'sh heavy.sh' --drain
expect 0 '…"exit_code":3,"peak_memory":…' ms jobs show "$heavy" --json
peak=$(ms jobs show "$heavy" --json | sed 's/.*"peak_memory":\([0-9]*\).*/\1/')
expect 0 '' test "$peak" -ge 52428800
expect 0 '…PROGRAM…exit code 3, peak memory …MiB…too much work…' ms jobs show "$heavy"
expect 0 '…PEAK MEMORY  LAST ERROR…MiB  too much work…' ms dead list --queue heavy

# -- scale ------------------------------------------------------------------------------------------
expect 0 '0 workers: no job runs, waits or is due' ms scale show --queue grow
for i in 1 2 3; do ms enqueue grow k >/dev/null; done
expect 0 '1 worker: work of 6.0 s …' ms scale show --queue grow
expect 0 '{"value":1,"desired_workers":1,…' ms scale show --queue 'gro*' --json
expect 64 '…min 5: must be 0 to 4…' ms scale show --queue grow --min 5 --max 4
expect 64 '…--exec: must be given…' ms scale run --pool grow --queue grow

# A program that fails runs again; a second process waits as the standby.
cat >set-size <<'END'
#!/bin/sh
echo "$1 $MAINSPRING_SCALE_DESIRED" >>sizes
test -e allowed
END
chmod +x set-size
"$mainspring" scale run --pool grow --queue grow --exec './set-size {desired}' --every 1s 2>scale.log &
scaler=$!
await grep -q '^1 1$' sizes
touch allowed
await grep -q '^grow: 1 worker: ' scale.log
"$mainspring" scale run --pool grow --queue grow --exec 'touch standby-ran' --every 1s &
standby=$!
expect 0 '…scale/grow…' ms leases list
kill -TERM $scaler
ended 0 $scaler
await test -e standby-ran
kill -TERM $standby
ended 0 $standby

# Units: instances start; the surplus one becomes quiet, and stops when it holds no job.
mkdir -p bin units
mkfifo units/requests
while read -r unit; do
  "$mainspring" work --queue grow --slots 1 \
    --exec "sh -c 'read -r job; while ! test -e units/go; do sleep 0.05; done'" >/dev/null 2>&1 &
  echo $! >"units/$unit"
done <units/requests &
manager=$!
exec 8>units/requests
cat >bin/systemctl <<'END'
#!/bin/bash
cd "$UNITS" || exit 1
case "$1" in
list-units) for f in *.service; do test -e "$f" && echo "$f loaded active running"; done; true ;;
start) echo "$3" >requests; until test -s "$3"; do sleep 0.02; done ;;
show) cat "$4" ;;
stop) kill -TERM "$(cat "$3")"; echo "$3" >>stopped; rm "$3" ;;
esac
END
chmod +x bin/systemctl
UNITS=$PWD/units PATH=$PWD/bin:$PATH \
  "$mainspring" scale units grower@ --queue grow --min 2 --max 2 --every 1s 2>units.log &
scaler=$!
await test -e units/grower@2.service
holding() { ms workers --json | contains "\"pid\":$(cat "units/$1").*\"running\":1" ||
  ms workers --json | contains "\"running\":1.*\"pid\":$(cat "units/$1")"; }
await holding grower@2.service
kill -TERM $scaler
ended 0 $scaler
UNITS=$PWD/units PATH=$PWD/bin:$PATH \
  "$mainspring" scale units grower@ --queue grow --max 1 --hold 0s --every 1s 2>>units.log &
scaler=$!
quiet() { ms workers --json | contains '"command":"quiet"'; }
await quiet
expect 1 '' test -e units/stopped
touch units/go
await test -e units/stopped
expect 0 'grower@2.service' head -1 units/stopped
kill -TERM $scaler
ended 0 $scaler
# An instance that an earlier process made quiet does not count: another starts, and it is stopped.
rm -f units/stopped
first=$(ms workers --json | grep "\"pid\":$(cat units/grower@1.service)\b" | sed 's/.*"id":"\([^"]*\)".*/\1/')
expect 0 '…: quiet…' ms workers quiet "$first"
UNITS=$PWD/units PATH=$PWD/bin:$PATH \
  "$mainspring" scale units grower@ --queue grow --min 1 --max 1 --hold 0s --every 1s 2>>units.log &
scaler=$!
await test -e units/grower@2.service
await test -e units/stopped
expect 0 'grower@1.service' head -1 units/stopped
kill -TERM $scaler
ended 0 $scaler
exec 8>&-
wait $manager
for unit in units/*.service; do test -e "$unit" && kill -TERM "$(cat "$unit")"; done
expect 0 '…"dead":0}…' ms queues show grow --json

expect 0 'rule …jobs, wait p50 …' ms scale simulate --queue grow --from 1h --slots 2

# -- work --slots N..N ------------------------------------------------------------------------------
expect 64 '…--target: needs --slots with a range…' ms work --queue wide --exec true --target 10s
expect 64 '…must be a number from 0 to 1024, or a range such as 2..16…' ms work --queue wide --exec true --slots 4..2
# It grows only while the machine is not busy, which a test cannot know.
for i in 1 2 3; do ms enqueue wide k >/dev/null; done
expect 0 'worker …3 completed, 0 failed attempts' ms work --queue wide --exec true --slots 1..3 --target 10s --drain

echo "$passed passed, $failed failed"
((failed == 0))
