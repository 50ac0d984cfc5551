#!/bin/bash
# Workflows by the command line against a real server: run, signalled, undone, parked, marked as done.
# Usage: workflow_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/script_test.sh"

cat >order.json <<'END'
{"name": "order", "input": {"order": 1, "parts": ["a", "b", "c"]}, "steps": [
  {"name": "charge", "job": {"queue": "pay", "kind": "charge", "max_attempts": 1,
    "args": {"order": {"$ref": "input.order"}}},
   "undo": {"queue": "pay", "kind": "refund", "max_attempts": 1}},
  {"name": "pack", "after": ["charge"], "each": {"$ref": "input.parts"},
   "job": {"queue": "pay", "kind": "pack", "max_attempts": 1, "args": {"part": {"$ref": "item"}}}},
  {"name": "approved", "signal": "approved", "after": ["pack"]},
  {"name": "ship", "after": ["approved"], "job": {"queue": "ship", "kind": "ship", "max_attempts": 1,
    "args": {"charge": {"$ref": "charge.id"}}}}],
 "result": {"parcel": {"$ref": "ship.parcel"}}}
END
# -- without a server ---------------------------------------------------------------------------------
expect 0 'order.json: order, 4 steps, queues pay, ship' ms workflow check order.json
expect 0 '{"name":"order","steps":4,"queues":["pay","ship"]}' ms workflow check order.json --json
echo '{"name":"w","steps":[{"name":"a","after":["b"],"sleep":"1s"},{"name":"b","after":["a"],"sleep":"1s"}]}' >circle.json
expect 64 '…circle.json: steps[0].after waits for itself through other steps: "a"' ms workflow check circle.json
echo '{"name":"w","steps":[{"name":"a","job":{"kind":"k","args":{"$ref":"c.d"}}}]}' >unknown.json
expect 64 '…unknown.json: steps[0].job.args refers to "c", which is not a step' ms workflow check unknown.json
echo '{"name":"w","steps":[{"name":"a","wait":"1s"}]}' >field.json
expect 64 '…field.json: "wait": no such field here; …undo_if_failed (steps[0].wait)' ms workflow check field.json
expect 66 '…' ms workflow check nothing.json
echo '{"name":"sums","steps":[{"name":"e","each":[1],"job":{"queue":"q","kind":"e"}},{"name":"sum","job":{"queue":"q","kind":"sum","args":{"all":{"$ref":"e"}}}},{"name":"n","job":{"queue":"q","kind":"n","args":{"$ref":"e","by_reference":true}}}]}' >sums.json
expect 0 'sums.json: sums, 3 steps, queues q
note: step sum gets all results of step e, at most 1048576 bytes together; larger ones park the workflow: use by_reference' ms workflow check sums.json
echo '{"name":"all","result":{"$ref":"e"},"steps":[{"name":"e","each":[1],"job":{"queue":"q","kind":"e"}}]}' >all.json
expect 0 'all.json: all, 1 step, queues q
note: the result has all results of step e, at most 1048576 bytes together; a larger one is left out: use by_reference' ms workflow check all.json

start_server

# -- success ------------------------------------------------------------------------------------------
expect 0 'no workflows' ms workflow list
expect 0 '1 started' ms workflow start order.json --key o-1
expect 0 '1 (already existed)' ms workflow start order.json --key o-1
expect 0 '{"id":1,"duplicate":true}' ms workflow start order.json --key o-1 --json
expect 0 '…state           running…▸ charge  running  job 1…  · pack  waiting…    · approved  waiting…      · ship  waiting  after approved, charge' ms workflow show 1
expect 0 '…' ms work --queue pay --exec 'echo {\"id\":\"c1\"}' --drain
expect 0 '…  ✓ pack  completed…3 jobs: 3 completed…    ▸ approved  running…' ms workflow show 1
expect 75 'workflow 1 is still running after 100ms and continues: `mainspring workflow show 1`' ms workflow start order.json --key o-1 --wait=100ms
ms workflow show 1 --follow >followed 2>&1 &
follower=$!
expect 0 '1 has the signal approved' ms workflow signal 1 approved --payload '{"by":"ann"}' --id s1
expect 0 '{"id":1,"signal":"approved"}' ms workflow signal 1 approved --id s1 --json
expect 0 '…' ms work --queue ship --exec 'echo {\"parcel\":\"p9\"}' --drain
expect 0 '{"parcel":"p9"}' ms workflow start order.json --key o-1 --wait
wait "$follower"
expect 0 '' test $? = 0
expect 0 '…state           completed…result          {"parcel":"p9"}…      ✓ ship  completed…' cat followed
expect 0 '{"workflow":{"id":1,"name":"order",…},"steps":[…"result":{"parcel":"p9"}…],"next":null}' ms workflow show 1 --json
expect 65 '…' ms workflow signal 1 approved
expect 65 '…' ms workflow cancel 1
expect 66 '…there is no workflow 9…' ms workflow show 9
expect 64 '…ID "x": must be a workflow…' ms workflow show x

# -- a fork from a step -------------------------------------------------------------------------------
expect 64 '…--from…' ms workflow fork 1
expect 64 '…has none of this name…' ms workflow fork 1 --from sheep
expect 0 '2 started' ms workflow fork 1 --from ship --key o-1b
expect 0 '2 (already existed)' ms workflow fork 1 --from ship --key o-1b
expect 0 '…forked from     1, step ship…✓ charge  completed (taken over)  job 1…▸ ship  running…' ms workflow show 2
expect 0 '{"workflow":{"id":2,…"forked_from":{"id":1,"step":"ship"}},"steps":[…"taken_over":true…' ms workflow show 2 --json
expect 65 '…it can be forked after it has ended…' ms workflow fork 2 --from ship
expect 0 '…' ms work --queue ship --exec 'echo {\"parcel\":\"p10\"}' --drain
expect 0 '{"parcel":"p10"}' ms workflow fork 1 --from ship --key o-1b --wait
expect 0 '…FORK OF…2…order…o-1b…completed…1…' ms workflow list

# -- a step fails, its undo fails too, and you undo it by hand ------------------------------------------
expect 0 '3 started' ms workflow start order.json --input '{"order":2,"parts":[]}'
expect 0 '…' ms work --queue pay --exec 'echo 1' --drain
expect 0 '3 running (paused)' ms workflow pause 3
expect 0 '3 running' ms workflow resume 3
expect 0 '3 undoing' ms workflow cancel 3 --reason 'wrong address'
expect 0 '…undoing  job … undo job …' ms workflow show 3
expect 0 '…' ms work --queue pay --exec 'sh -c "echo $MAINSPRING_IDEMPOTENCY_KEY >>keys; exit 65"' --drain
expect 0 '…state           parked…! charge  undo_failed…' ms workflow show 3
expect 1 '…parked…' ms workflow show 3 --follow
expect 0 '…parked…1 not undone…' ms workflow list --state parked
expect 0 '3 undoing' ms workflow retry 3
expect 0 '…↶ charge  undoing  job …  undo job …  available…' ms workflow show 3
expect 0 '…' ms work --queue pay --exec 'sh -c "echo $MAINSPRING_IDEMPOTENCY_KEY >>keys; exit 65"' --drain
expect 0 '2' sh -c 'wc -l <keys'
expect 0 'ms-w3-1-…-undo' sort -u keys
expect 0 '1' sh -c 'sort -u keys | wc -l'
expect 0 '3 cancelled' ms workflow retry 3 --step charge --by-hand
expect 65 '…' ms workflow retry 3
expect 0 '…3…cancelled…wrong address…2…completed…1…completed…' ms workflow list
expect 0 '{"id":2,…' ms workflow list --state completed --json
expect 64 '…--state…' ms workflow list --state nice

# -- a child workflow -----------------------------------------------------------------------------------
echo '{"name":"trip","input":{"to":"Rome"},"steps":[
  {"name":"book","workflow":{"name":"booking","input":{"to":{"$ref":"input.to"}},"steps":[
    {"name":"flight","job":{"queue":"fly","kind":"flight","args":{"to":{"$ref":"input.to"}}},"undo":{"queue":"fly","kind":"cancel"}}],
    "result":{"seat":{"$ref":"flight.seat"}}}},
  {"name":"mail","job":{"queue":"mail","kind":"mail","args":{"seat":{"$ref":"book.seat"}}}}]}' >trip.json
expect 0 'trip.json: trip, 3 steps, queues fly, mail' ms workflow check trip.json
expect 0 '4 started' ms workflow start trip.json
expect 0 '…▸ book  running  workflow 5: 0 of 1…    ▸ flight  running  job …  · mail  waiting…' ms workflow show 4
expect 0 '…parent          4, step book…input           {"to":"Rome"}…' ms workflow show 5
expect 65 '…it can be forked after…' ms workflow fork 5 --from flight
expect 0 '…' ms work --queue fly --exec 'echo {\"seat\":\"1a\"}' --drain
expect 0 '…✓ book  completed  workflow 5: 1 of 1…' ms workflow show 4
expect 0 '…"result":{"seat":"1a"},…' ms workflow show 4 --json
expect 0 '…5…booking…completed…1 of 1…4…' ms workflow list --name booking
expect 0 '4 undoing' ms workflow cancel 4
expect 0 '…↶ book  undoing  workflow 5…' ms workflow show 4
expect 0 '…' ms work --queue fly --exec 'echo 1' --drain
expect 0 '…state           cancelled…↺ book  undone…' ms workflow show 4
sed 's/"fly","kind":"cancel"/"a b","kind":"cancel"/' trip.json >bad.json
expect 64 '…steps[0].workflow.steps[0].undo.queue…' ms workflow check bad.json

# -- a step fails and parks its workflow ----------------------------------------------------------------
echo '{"name":"letter","steps":[{"name":"print","on_failure":"park","job":{"queue":"print","kind":"print"}},
  {"name":"post","job":{"queue":"post","kind":"post","args":{"pages":{"$ref":"print.pages"}}}}]}' >letter.json
expect 0 '6 started' ms workflow start letter.json
expect 0 '…' ms work --queue print --exec 'sh -c "echo $MAINSPRING_IDEMPOTENCY_KEY >>prints; exit 65"' --drain
expect 0 '…state           parked…✗ print  failed…· post  waiting…' ms workflow show 6
expect 1 '…parked…' ms workflow show 6 --follow
expect 0 '6 running' ms workflow retry 6
expect 65 '…is running, not parked…' ms workflow retry 6
expect 0 '…' ms work --queue print --exec 'sh -c "echo $MAINSPRING_IDEMPOTENCY_KEY >>prints; exit 65"' --drain
expect 0 '2' sh -c 'wc -l <prints'
expect 0 '1' sh -c 'sort -u prints | wc -l'
expect 64 '…--result…--by-hand…' ms workflow retry 6 --result 1
expect 64 '…--result…' ms workflow retry 6 --step print --by-hand --result '{'
expect 66 '…"post"…' ms workflow retry 6 --step post
expect 0 '6 running' ms workflow retry 6 --step print --by-hand --result '{"pages":2}'
expect 0 '…' ms work --queue post --exec 'sh -c "cat >posted"' --drain
expect 0 '…state           completed…✓ print  completed…' ms workflow show 6
sed 's/"park"/"stop"/' letter.json >bad.json
expect 64 '…"undo", "continue" or "park"…' ms workflow check bad.json
expect 0 '{"jobs":…,"problems":[]}' ms verify --json

echo "$passed checks passed, $failed failed"
((failed == 0))
