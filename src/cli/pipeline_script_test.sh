#!/bin/bash
# Pipelines by the command line against a real server: checked, run, split, dropped, rejected, stopped.
# Usage: pipeline_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/script_test.sh"


mkdir bin
cat >bin/p.json <<'END'
{"name": "p", "filters": [
  {"name": "pages", "exec": "./pages.sh", "slots": 2},
  {"name": "read", "exec": "./read.sh", "slots": 2, "max_attempts": 2, "retry_after": "10ms"},
  {"name": "keep", "exec": "./keep.sh", "slots": 2}]}
END
# Splits a book into pages and drops a book of no pages. Other input gives a word, which is not an item.
cat >bin/pages.sh <<'END'
#!/bin/bash
args=$(cat)
case $args in
  *'"pages":3'*) echo '[{"page":1},{"page":2},{"page":3}]' ;;
  *'"pages":0'*) ;;
  *) echo done ;;
esac
END
# Page 2 cannot be read. Page 3 can be read only the second time.
cat >bin/read.sh <<'END'
#!/bin/bash
args=$(cat)
case $args in
  *'"page":2'*) echo 'page 2 is torn' >&2; exit 65 ;;
  *'"page":3'*) if ((MAINSPRING_ATTEMPT == 1)); then exit 1; fi ;;
esac
echo '{"text":"x"}'
END
cat >bin/keep.sh <<'END'
#!/bin/bash
cat | grep -o '"args":{[^}]*}'
END
chmod +x bin/*.sh

# -- without a server ---------------------------------------------------------------------------------
expect 0 'p: p.pages -> p.read -> p.keep' ms pipeline check bin/p.json
expect 0 '{"name":"p","filters":[{"name":"pages","queue":"p.pages","kind":"pages","runs_here":true},…]}' \
  ms pipeline check bin/p.json --json
echo '{"name":"q","filters":[{"name":"a","exec":"none","slots":0}]}' >slots.json
expect 64 '…slots.json: …slots…' ms pipeline check slots.json
echo '{"name":"q","filters":[{"name":"a","exec":"./not-there"}]}' >program.json
expect 0 'q: q.a' ms pipeline check program.json
expect 64 '…filters[0].exec: no executable program ./not-there' ms pipeline run program.json
echo '{"name":"q","filters":[{"name":"a","exec":"none"}]}' >none.json
expect 64 '…there is nothing to run here' ms pipeline run none.json
expect 64 '…--filter "x": the file has no such filter' ms pipeline run bin/p.json --filter x
expect 66 '…' ms pipeline check nothing.json

start_server

# -- one process, every path of an item -----------------------------------------------------------------
expect 0 '1 available' ms enqueue p.pages book '{"book":"b","pages":3}' --correlation-id order-7 --tag red
expect 0 '2 available' ms enqueue p.pages book '{"pages":0}'
expect 0 '3 available' ms enqueue p.pages book '{"pages":"many"}'
expect 0 '…pages: 2 completed, 0 failed attempts, 1 dead
read: 2 completed, 1 failed attempt, 1 dead
keep: 2 completed, 0 failed attempts' ms pipeline run bin/p.json --drain
expect 0 '…"passed_on":3…' ms jobs show 1 --json
expect 0 '…"passed_on":0…' ms jobs show 2 --json
expect 0 '…bad_output…the output \"done\": must be an object, a list of objects, or nothing…' ms jobs show 3 --json
expect 0 '…page 2 is torn…' ms jobs list --queue p.read --state dead --json
expect 0 '2' grep -c . <(ms jobs list --queue p.keep --state completed --json | grep '"correlation_id":"order-7"' | grep '"tags":\["red"\]')
kept=$(ms jobs list --queue p.keep --json | grep -o '"id":[0-9]*' | grep -o '[0-9]*' | sort -n | head -1)
expect 0 '…\"book\":\"b\",\"page\":1,\"pages\":3,\"text\":\"x\"…' ms jobs show "$kept" --json
expect 0 'FILTER  QUEUE    WAITING  RUNNING  DONE  DEAD…pages   p.pages        0        0     2     1…' \
  ms pipeline show bin/p.json
expect 0 '…{"filter":"read","queue":"p.read","waiting":0,"running":0,"done":2,"dead":1,"paused":false}…' \
  ms pipeline show bin/p.json --json

# -- two processes, some filters each; a signal stops them cleanly ---------------------------------------
"$mainspring" pipeline run bin/p.json --filter pages --filter read >first.out 2>first.err &
first=$!
"$mainspring" pipeline run bin/p.json --filter keep >second.out 2>second.err &
second=$!
for ((i = 0; i < 5; ++i)); do ms enqueue p.pages book '{"book":"c","pages":3}' >/dev/null; done
through() { [[ $(ms pipeline show bin/p.json --json) == *'"queue":"p.keep","waiting":0,"running":0,"done":12,'* ]]; }
await through
kill -TERM "$first" "$second"
wait "$first" || { echo "FAILED: the first process ended with $?"; failed=$((failed + 1)); }
wait "$second" || { echo "FAILED: the second process ended with $?"; failed=$((failed + 1)); }
expect 0 '…pages: 5 completed…read: 10 completed…' cat first.out
expect 0 'keep: 10 completed, 0 failed attempts' cat second.out
expect 0 '…' ms verify

echo "$passed checks passed, $failed failed"
((failed == 0))
