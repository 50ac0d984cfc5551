#!/bin/bash
# Triggers by the command line against a real server: set, called over HTTP, fired, paused, removed.
# Usage: trigger_script_test.sh PROGRAM
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/script_test.sh"

start_server

expect 0 'no triggers' ms trigger list
expect 64 '…give --http, --folder or --ended…' ms trigger set orders --queue orders --kind import
expect 64 '…--rate…' ms trigger set orders --folder /in --rate 3 --kind import
expect 64 '…--watch-root…' ms trigger set scans --folder /in --kind index
echo 'a-secret-of-many-letters' >secret
# shellcheck disable=SC2016
args='{"order":{"$ref":"body.order"}}'
expect 0 'orders created, version 1' ms trigger set orders --http token --event-id headers.x-id \
  --secret-file secret --queue orders --kind import --args "$args"
expect 0 'orders unchanged, version 1' ms trigger set orders --http token --event-id headers.x-id \
  --queue orders --kind import --args "$args"
expect 0 '…made created, version 1…secret whsec_…shown only once…' ms trigger set made --http signature --kind k

call() { curl -sS "$MAINSPRING_SERVER/hooks/orders" -H "Authorization: Bearer $1" -H "X-Id: $2" --json "$3"; }
expect 0 '{"job":1,"duplicate":false}' call a-secret-of-many-letters e1 '{"order":7}'
expect 0 '{"job":1,"duplicate":true}' call a-secret-of-many-letters e1 '{"order":8}'
expect 0 '…"code":"unauthenticated"…' call another-secret-of-letters e2 '{"order":8}'
expect 0 '…"code":"invalid_argument"…body.order…' call a-secret-of-many-letters e3 '{}'
expect 0 '2' ms trigger fire orders --event by-hand --body '{"order":9}'
expect 0 '2 (already fired)' ms trigger fire orders --event by-hand --body '{"order":9}'
expect 0 '…{"order":9}…' ms jobs show 2
expect 0 '…made…POST /hooks/made…active…orders…POST /hooks/orders…active…2…' ms trigger list
expect 0 '…SEQ…2…by-hand…1…e1…' ms trigger ledger orders
expect 0 '{"seq":2,"event":"by-hand",…"job":2}' ms trigger ledger orders --json --limit 1
expect 0 'orders paused' ms trigger pause orders --reason 'the shop is closed'
expect 0 '…state           paused…paused for      the shop is closed…' ms trigger show orders
expect 65 '…trigger orders is paused…' ms trigger fire orders --body '{"order":9}'
expect 0 '…"code":"unavailable"…' call a-secret-of-many-letters e4 '{"order":7}'
expect 0 'orders resumed' ms trigger resume orders
expect 0 '{"job":3,"duplicate":false}' call a-secret-of-many-letters e4 '{"order":7}'
expect 0 '…"action":"put_trigger"…' ms audit list --json
expect 64 '…--ended late: must be any, or completed, cancelled and dead…' ms trigger set after --ended late --kind k
expect 64 '…--of-queue: needs --ended…' ms trigger set after --http token --of-queue q --kind k
expect 64 '…would fire it again…' ms trigger set after --ended any --of-queue orders --queue orders --kind import
expect 64 "…mainspring schedules set after --cron…" ms trigger set after --schedule '*/5 * * * *' --kind k
# shellcheck disable=SC2016
expect 0 'after created, version 1' ms trigger set after --ended cancelled --of-queue orders --of-kind import \
  --queue mail --kind alert --args '{"why":{"$ref":"job.error"}}'
expect 0 '…' ms jobs cancel 1 --reason 'not wanted'
expect 0 '5' ms trigger fire after --of-job '{"error":"by hand"}'
expect 0 '…' ms jobs cancel 2 --reason 'not wanted'
expect 0 '…{"why":"not wanted"}…' ms jobs show 6
expect 0 '…source          cancelled of orders/import…fired           3…' ms trigger show after
expect 0 '…REASON…2/cancelled…1/cancelled…' ms trigger ledger after
expect 0 'orders removed' ms trigger remove orders
expect 66 '…trigger orders: there is no such trigger…' ms trigger show orders

echo "$passed checks passed, $failed failed"
((failed == 0))
