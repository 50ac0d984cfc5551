#!/bin/bash
# A job that aborts its worker's process, among others: in the end it runs alone, and the others complete.
# Usage: quarantine_test.sh MAINSPRING CRASHING_WORKER
set -uo pipefail
crashing=$(readlink -f "$2")
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/../../src/cli/script_test.sh"

start_server
worker='' keeper=''
# Restarts a dead worker, as a service manager does.
keep_working() {
  ulimit -c 0
  trap 'kill "$one" 2>/dev/null; exit' TERM
  while :; do
    "$crashing" "$MAINSPRING_SERVER" 2>>worker.log &
    one=$!
    wait "$one"
    echo "$?" >>deaths
  done
}

expect 0 '1 available' ms enqueue photos poison '{"name":"x"}' --priority 0 --max-attempts 3
for ((i = 0; i < 20; ++i)); do
  expect 0 '…available' ms enqueue photos good "{\"name\":\"$i\"}"
done
keep_working 2>/dev/null &
keeper=$!

quarantined() { ms jobs show 1 --json | contains '"quarantined":{"since":'; }
await quarantined
expect 0 '1 retryable (quarantine): in quarantine since …: its last 2 attempts were lost with their workers…' ms why 1
expect 0 '…1  photos  poison     2  …waits…' ms quarantine list
expect 0 '…in quarantine…1…' ms queues show photos
done_all() { [[ $(ms jobs list --queue photos --state completed --all --json | wc -l) == 20 ]]; }
await done_all
# No other job was lost more often than the one that took them down before its quarantine.
expect 1 '' grep -E '"attempt":([4-9]|[0-9]{2})' <(ms jobs list --queue photos --state completed --all --json)

# Released, and lost once more: then its attempts are used up.
dead() { ms jobs show 1 --json | contains '"state":"dead"'; }
await dead
expect 0 'no jobs in quarantine' ms quarantine list
died_three_times() { (($(grep -c 134 deaths) == 3)); }
await died_three_times
expect 65 'mainspring: job 1 is not in quarantine' ms quarantine release 1
expect 66 '…' ms quarantine release 99
expect 0 '…"gate":"ended"…' ms why 1 --json
kill "$keeper"
wait "$keeper" 2>/dev/null

# By hand.
expect 0 'photos: quarantine after 1 lost attempt' ms queues limit photos --quarantine-after 1
expect 64 '…--quarantine-after 11: must be 0 (never) to 10, or default for 2…' ms queues limit photos --quarantine-after 11
id=$(ms enqueue photos poison '{"name":"y"}' --json | sed 's/.*"id":\([0-9]*\).*/\1/')
(ulimit -c 0; "$crashing" "$MAINSPRING_SERVER") 2>/dev/null
set_apart() { ms quarantine list | contains waits; }
await set_apart
expect 0 "$id available" ms quarantine release "$id"
expect 0 'no jobs in quarantine' ms quarantine list
expect 0 'photos: no limits' ms queues limit photos --quarantine-after default
expect 0 '…mainspring_queue_quarantined{queue="photos"} 0…' curl -s "$MAINSPRING_SERVER/metrics"

echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
