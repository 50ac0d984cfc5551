#!/bin/bash
# The job folders of examples/jobs, run unchanged by real servers. Usage: host_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
folders=$(readlink -f "$(dirname "$0")/../../examples/jobs")
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/../../src/cli/script_test.sh"
exec 2>&1
place=$(pwd -P)

# check COMMAND…: it succeeds.
check() {
  if "$@" >/dev/null 2>&1; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAILED: $*"
  fi
}
says() { ms logs "$1" --all "${@:3}" | contains -- "$2"; }
status_is() { ms jobs-host show "$1" | contains "^status *$2"; }
[[ $(id -u) != 0 ]] || export MAINSPRING_JOBS_USER=root
gone() { ! kill -0 "$1"; }
# in_folder PART: the processes of this test whose directory has PART in its path.
in_folder() { find /proc/[0-9]*/cwd -maxdepth 0 -lname "$place/*$1*" -printf '%h\n' 2>/dev/null | tr -dc '0-9\n'; }
none() { [[ -z $(in_folder "$1") ]]; }

# serve FLAG…: a server, its address in MAINSPRING_SERVER, its pid in `server`.
serve() {
  rm -f server.json
  "$mainspring" serve --data data --jobs jobs --listen 127.0.0.1:0 --json --log-level warn --folder-quiet 100ms \
    "$@" >server.json 2>>server.log &
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
install_job() {
  mkdir -p "jobs/${1%/*}"
  cp -rp "$folders/$1" "jobs/.new"
  mv jobs/.new "jobs/$1"
}

mkdir jobs
MAILBOX_SENDER='the shop' serve --webjobs-api

# -- 1. a bash loop that honours the shutdown file ----------------------------------------------------
install_job continuous/sweeper
await says sweeper 'sweep 1 done'
check status_is sweeper Running
expect 0 'sweeper is stopping' ms jobs-host stop sweeper
await status_is sweeper Stopped
check says sweeper 'told to end after .* sweeps; bye'
check test -e jobs/continuous/sweeper/disable.job
expect 0 'sweeper is started' ms jobs-host start sweeper
await status_is sweeper Running

# -- 2. a Python nightly report with arguments --------------------------------------------------------
install_job triggered/nightly-report
await ms jobs-host show nightly-report
expect 0 '…Status changed to Running…wrote …report-2026-02.txt…ERR ] nothing unusual…Status changed to Success…' \
  ms jobs-host run nightly-report --wait -- 2026-02 --title 'My report'
check grep -q 'My report: 28 days' data/host/data/jobs/triggered/nightly-report/report-2026-02.txt
expect 1 '…the following arguments are required: month…Job failed due to exit code 2…Status changed to Failed…' ms jobs-host run nightly-report --wait
expect 0 '…Failed…Success…' ms jobs-host history nightly-report
expect 0 '…' ms dead list --queue host
check bash -c "'$mainspring' dead list --queue host --json | grep -q 'triggered/nightly-report'"

# -- 3. a Node queue consumer -------------------------------------------------------------------------
if command -v node >/dev/null; then
  install_job continuous/mailbox
  expect 0 '{"sent":"ann"}…' ms enqueue mailbox mail '{"to":"ann"}' --wait=60s
  await says mailbox 'mail to ann from the shop'
  expect 0 'mailbox is stopping' ms jobs-host stop mailbox
  await status_is mailbox Stopped
  check says mailbox 'INFO\] ending'
else
  echo "node is not installed: the Node consumer was not run"
fi

# -- 4. a fork bomb, and memory without end, under limits ----------------------------------------------
pids_limited=$(ms jobs-host info | grep -c '^cgroup_pids *yes')
memory_limited=$(ms jobs-host info | grep -c '^cgroup_memory *yes')
if [[ $pids_limited == 1 && $memory_limited == 1 ]]; then
  install_job triggered/fork-bomb
  install_job triggered/memory-hog
  await ms jobs-host show fork-bomb
  await ms jobs-host show memory-hog
  ms jobs-host run fork-bomb --wait >bomb.log
  check grep -q 'Status changed to' bomb.log
  await none triggered/fork-bomb
  expect 1 '…Job failed due to killed by SIGKILL (out of memory…Status changed to Failed…' ms jobs-host run memory-hog --wait
  # A queue folder's program has the same limits, and its job reports them.
  mkdir -p hog jobs/queues
  echo '{"limits": {"memory": "80MiB"}}' >hog/settings.job
  cp "$folders/triggered/memory-hog/run.py" hog/
  mv hog jobs/queues/  # whole: the host must not find a part of it
  await ms jobs-host show hog
  expect 1 '…out of memory…' ms enqueue hog k --max-attempts 1 --wait=60s
  hog=$(ms jobs list --queue hog --state dead --json | sed 's/^{"id":\([0-9]*\),.*/\1/')
  expect 0 '…"signal":"SIGKILL","oom":true,"peak_memory":…' ms jobs show "$hog" --json
  check curl -sf "$MAINSPRING_SERVER/healthz"
else
  echo "no control groups: the fork bomb and the memory hog were not run"
fi

# -- 5. a job that ignores TERM, with a child that hides ------------------------------------------------
install_job continuous/stubborn
await says stubborn 'you cannot stop me'
stubborn=$(ms logs stubborn --all | sed -n 's/.*I am \([0-9]*\).*/\1/p')
check kill -0 "$stubborn"
check test "$(in_folder continuous/stubborn | wc -l)" -ge 2  # and its hidden child
expect 0 'stubborn is stopping' ms jobs-host stop stubborn
await status_is stubborn Stopped
check gone "$stubborn"
await none continuous/stubborn

# -- 6. one that logs a gigabyte ------------------------------------------------------------------------
install_job triggered/chatty
await ms jobs-host show chatty
bytes=${HOST_TEST_LOG_BYTES:-1073741824}
run=$(ms jobs-host run chatty -- "$bytes")
patience=300 await says chatty 'Status changed to Success' --run "$run" --bytes 2000  # disks are slow
log=data/host/data/jobs/triggered/chatty/$run/output_log.txt
lines=$((bytes / 62))
check test "$(grep -c 'a line like many others' "$log")" -ge "$lines"
check bash -c "tail -c 300 '$log' | grep -q 'that was all'"
rss=$(awk '/VmHWM/ {print $2}' "/proc/$server/status")
check test "$rss" -lt 300000
echo "a log of $(stat -c %s "$log") bytes; the server's memory was at most $rss KiB"
expect 0 'chatty is removed, with its data' ms jobs-host remove chatty
check test ! -e "$log"
# Binary output does not stop the reading of a log.
mkdir -p binary jobs/triggered
printf '%s\n' '#!/bin/bash' "printf 'a\\0b\\n\\377\\n\\033[2J\\302\\2332J\\n'" 'echo "after it"' >binary/run.sh
mv binary jobs/triggered/binary
await ms jobs-host show binary
expect 0 '…INFO] a?b…INFO] after it…' ms jobs-host run binary --wait
# No pager gets a character that a terminal obeys.
expect 0 '…INFO] \x1b[2J\u009b2J…' ms logs binary
expect 0 '…{"run":"…","line":"…INFO] \u001b[2J\u009b2J"}…' ms logs binary --json

# -- 7. a job that always exits at once -------------------------------------------------------------------
install_job continuous/flapping
await status_is flapping PendingRestart
check says flapping 'Process went down, waiting for 60 seconds'
check says flapping 'ERR ] no database at localhost'
engine_job=$(ms jobs-host show flapping | sed -n 's/^job *//p')
failed_once() { ms jobs show "$engine_job" | contains retryable; }
await failed_once  # the status changes before the worker reports the attempt
expect 0 '…retryable…exit code 3…' ms jobs show "$engine_job"

# -- 8. a scheduled one, across a restart -----------------------------------------------------------------
install_job triggered/heartbeat
beats=data/host/data/jobs/triggered/heartbeat/beats
await test -s "$beats"
stop_server
before=$(wc -l <"$beats")
serve --webjobs-api
await bash -c "[ \$(wc -l <'$beats') -gt $before ]"
# The program writes its beat before its run ends.
completed() { ms schedules ledger host/heartbeat | contains 'schedule  fired.*completed'; }
await completed
expect 0 '…schedule  fired…completed…' ms schedules ledger host/heartbeat
expect 0 '…' ms jobs-host remove heartbeat
expect 66 '…' ms schedules show host/heartbeat

# -- 9. queues: a process per job, and a child that stays ---------------------------------------------------
install_job queues/thumbs
install_job queues/words
expect 0 '{"thumbnail":"small-a.jpg"}…' ms enqueue thumbs make '{"path":"a.jpg"}' --wait=60s
expect 0 '{"words": 3, "pid": …' ms enqueue words count '{"text":"one two three"}' --wait=60s
expect 1 '…no words in it…' ms enqueue words count '{"text":""}' --wait=60s
await says words 'ready to count'

# -- 10. a zip, deployed while the job runs -----------------------------------------------------------------
mkdir v1 v2
printf '#!/bin/bash\nsource ./lib.sh\nwhile [ ! -e "$WEBJOBS_SHUTDOWN_FILE" ]; do sleep 0.05; done\n' | tee v1/run.sh >v2/run.sh
echo 'echo "version one"' >v1/lib.sh
echo 'echo "version two"' >v2/lib.sh
expect 0 'continuous deployed runs run.sh by BashScriptHost' ms jobs-host deploy continuous/deployed v1
await says deployed 'version one'
python3 -c 'import shutil; shutil.make_archive("v2", "zip", "v2")'
expect 0 '{"name":"deployed",…"type":"continuous",…' curl -s -X PUT -H 'Content-Type: application/zip' \
  -H 'Content-Disposition: attachment; filename=v2.zip' --data-binary @v2.zip "$MAINSPRING_SERVER/api/continuouswebjobs/deployed"
await says deployed 'version two'
check cmp v2/lib.sh jobs/continuous/deployed/lib.sh
python3 - <<'PY'
import zipfile
with zipfile.ZipFile("slip.zip", "w") as z:
    z.writestr("run.sh", "#!/bin/bash\n")
    z.writestr("../../escaped", "x")
PY
expect 64 '…' ms jobs-host deploy continuous/deployed slip.zip
check test ! -e jobs/escaped
check cmp v2/lib.sh jobs/continuous/deployed/lib.sh

# -- 11. a singleton pair on two nodes, and kill -9 -----------------------------------------------------------
cp -rp jobs jobs2
install_job continuous/leader
cp -rp jobs/continuous/leader jobs2/continuous/
rm -rf jobs2/continuous/[!l]* jobs2/queues jobs2/triggered
await status_is leader Running
"$mainspring" host --jobs jobs2 --host-data host2 --log-level warn >second.out 2>second.log &
second=$!
await bash -c "grep -q InactiveInstance host2/data/jobs/continuous/leader/status_*"
expect 0 'leader is stopping' ms jobs-host stop leader
await bash -c "grep -q Running host2/data/jobs/continuous/leader/status_*"
await test -s host2/data/jobs/continuous/leader/leader
follower=$(cat host2/data/jobs/continuous/leader/leader)
check kill -0 "$follower"
kill -KILL "$second"
wait "$second" 2>/dev/null
await gone "$follower"
expect 0 'leader is started' ms jobs-host start leader
await status_is leader Running   # when the dead host's lease has ended

# -- 12. a killed server leaves nothing running, and continues where it was -------------------------------------
await says sweeper 'sweep 1 done'
pids=$(in_folder data/host/tmp/jobs/continuous)
check test -n "$pids"
kill -KILL "$server"
wait "$server" 2>/dev/null
for pid in $pids; do await gone "$pid"; done
serve --webjobs-api
await status_is sweeper Running
expect 0 '…"layers":[{"name":"process_group","active":true…' curl -s "$MAINSPRING_SERVER/healthz"
stop_server
await none data/host
# The second host was killed and did not return: this host has removed its groups, and now its own.
check test -s host2/id
for id in host2/id data/host/id; do
  check test -z "$(find /sys/fs/cgroup -maxdepth 4 -name "mainspring-host.$(cat $id)" 2>/dev/null)"
done
if grep -q ' ERROR ' server.log second.log; then
  failed=$((failed + 1))
  grep ' ERROR ' server.log second.log
fi

echo "$passed passed, $failed failed"
((failed == 0))
