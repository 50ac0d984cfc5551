#!/bin/bash
# Sessions by the command line against a real server: order, state, a killed worker, a blocked session.
# Usage: session_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/script_test.sh"

start_server

# -- order and state, with two workers; one is killed -----------------------------------------------
# Each job appends its number to the file of its session and adds one to the session's state.
cat >run.sh <<'END'
read -r job
seen=$(printf '%s' "$job" | sed -n 's/.*"session_state":\([0-9]*\).*/\1/p')
echo "$(printf '%s' "$job" | sed 's/.*"args":\([0-9]*\).*/\1/')" >>"order.$MAINSPRING_SESSION"
echo "{\"session_state\":$((${seen:-0} + 1))}" >&3
END
sessions=50 each=6
for ((i = 1; i <= each; ++i)); do
  for ((s = 1; s <= sessions; ++s)); do
    # Priorities would reverse the order if sessions used them.
    echo "{\"args\":$i,\"session\":\"c$s\",\"priority\":$((9 - i))}"
  done
done >jobs.jsonl
expect 0 '300 jobs enqueued, ids 1 to 300' ms enqueue orders step --many jobs.jsonl
for n in 1 2; do
  # The lease is longer than a busy machine stops a worker: else two attempts of a job may append at
  # the same time.
  "$mainspring" work --queue orders --exec 'sh run.sh' --slots 4 --lease 8s 2>"worker$n.log" &
  workers[n]=$!
done
lines() { (($(cat order.* 2>/dev/null | wc -l) >= $1)); }
await lines 60
kill -KILL "${workers[1]}"
completed() { [[ $(ms queues show orders --json) == *"\"completed\":$1,"* ]]; }
await completed 300
kill -TERM "${workers[2]}"
wait "${workers[2]}"
# An attempt that the killed worker had started may occur twice; nothing runs out of order.
in_order() {
  for ((s = 1; s <= sessions; ++s)); do
    [[ $(uniq "order.c$s" | tr '\n' ' ') == '1 2 3 4 5 6 ' ]] || { echo "c$s: $(tr '\n' ' ' <"order.c$s")"; return 1; }
    ms sessions show orders "c$s" --json | contains '"state":6,' || { echo "c$s: $(ms sessions show orders "c$s" --json)"; return 1; }
  done
}
expect 0 '' in_order
expect 0 '{"jobs":300,"problems":[]}' ms verify --json

# -- a dead job blocks its session -------------------------------------------------------------------
expect 0 '301 available' ms enqueue mail send 1 --session a/b --session-on-dead block
expect 0 '302 waiting' ms enqueue mail send 2 --session a/b
expect 0 '…session_on_dead block…' ms jobs show 301
expect 0 '302 waiting (session_head): waits for job 301, the head of session "a/b" with 2 jobs' ms jobs why 302
expect 0 '…' ms work --queue mail --exec 'sh -c "exit 65"' --drain
expect 0 '302 waiting (session_stopped): session "a/b" is blocked by dead job 301: retry that job, or continue without it: `mainspring sessions resume mail a/b`' ms jobs why 302
expect 0 'SESSION…a/b…blocked by 301…' ms sessions list mail
expect 0 '…stop            blocked by 301…' ms sessions show mail a/b
expect 0 'a/b continues' ms sessions resume mail a/b
expect 0 '…' ms work --queue mail --exec true --drain
expect 0 '…state           completed…' ms jobs show 302
expect 66 '…' ms sessions show mail a/b
expect 0 'no sessions' ms sessions list mail
expect 66 '…' ms sessions resume mail never
expect 64 'mainspring: --session-on-dead: is for jobs of a session, and needs session' ms enqueue mail send --session-on-dead park
expect 64 '…--reply-session: is for replies…' ms enqueue mail send --reply-session s
expect 0 '303 available' ms enqueue mail send --reply-to answers --reply-session me --reply-progress
expect 0 '…[{"queue":"answers","kind":"progress","on":["progress"],"session":"me"}]…' ms jobs show 303
expect 0 '…' ms work --queue mail --exec true --drain
expect 0 '…answers…' ms jobs show 304
expect 0 '…me…' ms sessions list answers

echo "$passed checks passed, $failed failed"
((failed == 0))
