#!/bin/bash
# Commands for operators: health, top, doctor, support-bundle, settings and the store of a server, times. With literal
# output. Usage: operate_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/script_test.sh"

# The widest line of a file, in columns.
widest() { LC_ALL=C.UTF-8 wc -L <"$1"; }
# Lets a command write to a terminal of 80 columns: on_terminal FILE COMMAND…
on_terminal() {
  python3 - "$@" <<'EOF'
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
with open(sys.argv[1], "wb") as out:
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        out.write(piece.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
EOF
}

# -- health -----------------------------------------------------------------------------------------
closed=http://127.0.0.1:1  # the kernel gives no server this port
for probe in '' --ready --live; do
  # shellcheck disable=SC2086
  expect 1 'fail: …' ms health $probe --server "$closed"
  # shellcheck disable=SC2086
  expect 1 '{"status":"fail","message":"…"}' ms health $probe --server "$closed" --json
done
expect 64 'mainspring: --ready and --live: only one of them can be given' ms health --ready --live
expect 64 'mainspring: …nowhere…' ms health --server nowhere
expect 64 'mainspring: --timeout "soon": …' ms health --timeout soon
# A server that accepts connections and never answers.
python3 -c 'import signal, socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
signal.pause()' >mute.port &
mute=$!
await test -s mute.port
expect 1 'fail: …' ms health --timeout 200ms --server "http://127.0.0.1:$(cat mute.port)"
kill "$mute"
start_server
expect 0 1 bash -c "'$mainspring' health | grep -cE '^ok$|^warn: '"  # this machine may have little space
expect 0 'ready' ms health --ready
expect 0 'live' ms health --live
expect 0 '{"status":"…","parts":[{"name":"loops",…' ms health --json
# Its store moves: the server refuses requests, and its loops still run.
"$mainspring" store copy "$work/data" "$work/moved" >/dev/null 2>&1
not_ready() { ! ms enqueue q k && ! ms health --ready; }
await not_ready
expect 1 'fail: the store has moved to …moved' ms health --ready
expect 0 'live' ms health --live
kill "$server"
wait "$server"
server=''
rm -r data moved
start_server

# -- top --------------------------------------------------------------------------------------------
expect 0 '…Z  0 workers, 0 running, 0 slots

no queues' ms top --count 1
for queue in a-queue-with-a-name-that-is-longer-than-others-and-does-not-fit-at-all mail; do
  ms enqueue "$queue" k >/dev/null
done
expect 0 '…Z  0 workers, 0 running, 0 slots

QUEUE …IN/S  OUT/S  WAITING  RUNNING  RETRY  DEAD  LAG  WAIT50  WAIT95  RUN50  RUN95
a-queue-…  -      -        1        0      0     0 …
mail …  -      -        1        0      0     0 …' ms top --count 1
expect 0 '{"at":"…Z","queues":[{"name":"a-queue-…","in_per_second":0.000,"out_per_second":0.000,"available":1,"running":0,"retryable":0,"dead":0,"lag_ms":…,"paused":false,"wait":{"count":0,"p50_ms":null,"p95_ms":null,"p99_ms":null},"run":{"count":0,…}},{"name":"mail",…}]}' ms top --count 1 --json
expect 0 2 bash -c "'$mainspring' top --every 100ms --json | wc -l"
expect 0 '' on_terminal top.out "$mainspring" top --count 1
expect 0 80 widest top.out
expect 64 'mainspring: --every 1ms: must be 100ms to 1h' ms top --every 1ms
expect 69 'mainspring: …' ms top --count 1 --server "$closed"

# -- settings and store of the server -----------------------------------------------------------------
expect 0 '…
data  …  flag --data
listen …  127.0.0.1:0  …  flag --listen
…' ms config --of-server
expect 0 '{"name":"data","value":"'"$work/data"'","default":"data","source":"flag","where":"flag --data"}' \
  bash -c "'$mainspring' config --of-server --json | grep '\"data\"'"
expect 0 'kind            sqlite
directory       '"$work"'/data
schema          …
database        … bytes
free inside     … bytes
log             … bytes
disk free       … bytes
jobs            … (… live, 0 finished)' ms store info --of-server
expect 0 '{"kind":"sqlite","bytes":…,"live":…}' ms store info --of-server --json
expect 64 'mainspring: --of-server: cannot be given with URL, --data, --store or --store-file' ms store info --of-server --data x
expect 69 'mainspring: …' ms config --of-server --server "$closed"

# -- errors of failed jobs, times --------------------------------------------------------------------
ms enqueue work fails '{}' >/dev/null
"$mainspring" work --queue work --exec "sh -c 'echo the disk of the printer is full, and this text is long, very long >&2; exit 1'" --retry-after 1h >worker.log 2>&1 &
worker=$!
await bash -c "'$mainspring' jobs list --state retryable | grep fails"
kill "$worker"
wait "$worker"
expect 0 'ID  QUEUE  KIND   STATE      ATTEMPT  AGE  DETAIL  ERROR
…  work   fails  retryable     1/20  …  …the disk of the printer is full…' ms jobs list --state retryable
expect 0 '…STATE      ATTEMPT  AGE
…' ms jobs list --state available
expect 0 '' on_terminal jobs.out "$mainspring" jobs list --color never
expect 0 '…the disk…' cat jobs.out
expect 0 '' test "$(widest jobs.out)" -le 80
expect 0 0 bash -c "'$mainspring' jobs list --json | grep -c 'the disk of the printer'; true"
stamp=$(date -u -d '1 hour ago' +%Y-%m-%dT%H:%M)
# A day, not an hour: a local time that occurs twice is the first one.
berlin=$(TZ=Europe/Berlin date -d '1 day ago' +%Y-%m-%dT%H:%M)
expect 0 '…fails…' ms jobs list --queue work --since "$stamp" --utc
expect 0 '…fails…' env TZ=Europe/Berlin "$mainspring" jobs list --queue work --since "$berlin"
expect 0 'no jobs' env TZ=Europe/Berlin "$mainspring" jobs list --queue work --since "$(TZ=Europe/Berlin date -d '1 day' +%Y-%m-%dT%H:%M)"
expect 0 'no jobs' ms jobs list --queue work --until 1h
expect 64 'mainspring: --since "yesterday": must be a duration ago (2h, 7d), an instant (2026-01-31T09:00:00Z), or a local time (2026-01-31T09:00)' ms jobs list --since yesterday
ms mark old --at 2020-06-15T10:00:00Z >/dev/null
ms mark new >/dev/null
expect 0 1 bash -c "'$mainspring' marks list --since 2h | grep -cE ' (new|old)$'"
expect 0 '…2020-06-15T12:00:00+02:00…' env TZ=Europe/Berlin "$mainspring" marks list --since 2020-06-15T12:00
expect 0 '…2020-06-15T10:00:00Z…' env TZ=Europe/Berlin "$mainspring" marks list --since 2020-06-15 --utc
expect 0 '…2020-06-15T10:00:00Z…' env TZ=Europe/Berlin MAINSPRING_UTC=true "$mainspring" --utc marks list
expect 0 '…"at":"2020-06-15T10:00:00Z"…' env TZ=Europe/Berlin "$mainspring" marks list --json
expect 0 '…2020-06-15T04:15:00-05:45…' env TZ=Odd5:45 "$mainspring" marks list
expect 0 'TIME  …' env TZ=Europe/Berlin "$mainspring" history --since 2h
expect 0 'TIME (UTC)  …' env TZ=Europe/Berlin "$mainspring" history --since 2d --step 1d
expect 0 'TIME (UTC)  …' env TZ=Europe/Berlin "$mainspring" history --since 2h --utc
expect 64 'mainspring: --since "2200-01-01": must be in the past' ms history --since 2200-01-01
expect 0 '…add_mark…' ms audit list --since 1h
expect 0 '…add_mark…' ms audit list --since 1h --oldest-first
expect 0 'no records' ms audit list --since 0s
expect 0 'no records' ms audit list --since 0s --oldest-first
expect 0 '…
Showing the newest 1; use --limit N or --all for more.' ms audit list --since 1h --limit 1

# -- doctor -----------------------------------------------------------------------------------------
mkdir -m 700 good
expect 0 'ok    kernel         Linux …data directory good…disk space…disk sync…clock…sandbox…ok    server         version …open files     the server: at most …' ms doctor --data good
expect 0 '{"name":"kernel","status":"ok","message":"Linux …"}…' ms doctor --data good --json
expect 0 '…ok    server         not asked: …' ms doctor --data good --server "$closed"
expect 0 '…ok    data directory new is created at the first start…' ms doctor --data new
expect 0 '' test ! -e new
mkdir -m 755 open
expect 0 '…warn  data directory open has mode 0755: other users can read jobs
                     → chmod 700 open…' ms doctor --data open
few_files() { (ulimit -n 300 && exec "$mainspring" doctor --data good --server "$closed"); }
expect 0 '…warn  open files     this shell: at most 300; 20000 connections need 20512
                     → set LimitNOFILE=20512 in the unit, or lower max_connections…' few_files
read_only() {
  mkdir -p -m 700 ro
  unshare --user --map-root-user --mount bash -c 'mount --bind ro ro && mount -o remount,bind,ro ro && exec "$0" doctor --data ro' "$mainspring"
}
if unshare --user --map-root-user --mount true 2>/dev/null; then
  expect 1 '…fail  data directory ro belongs to …its file system is read-only…
                     → mount its file system for writing…warn  disk sync      cannot be measured: …' read_only
fi
drop=(setpriv --bounding-set=-all --inh-caps=-all)
if [[ $(id -u) == 0 ]] && "${drop[@]}" true 2>/dev/null; then
  # root without capabilities for files of other users.
  mkdir -m 700 foreign && echo >foreign/mainspring.db && chmod 600 foreign/mainspring.db && chown 12345 foreign/mainspring.db
  expect 1 '…fail  store files    foreign/mainspring.db belongs to …' "${drop[@]}" "$mainspring" doctor --data foreign
elif [[ $(id -u) != 0 ]]; then
  mkdir -m 700 foreign && echo >foreign/mainspring.db && chmod 0 foreign/mainspring.db
  expect 1 '…fail  store files    foreign/mainspring.db belongs to …' ms doctor --data foreign
fi
ms tls init --dir tls --days 5 >/dev/null
expect 0 '…ok    secret files   1 file, private
warn  certificate    valid until …
                     → renew it; …' ms doctor --data good --tls-cert tls/server.pem --tls-key tls/server.key
chmod 644 tls/server.key
expect 1 '…fail  secret files   tls_key: tls/server.key has mode 0644: other users can read it
                     → chmod 600 tls/server.key
fail  certificate    …0644…' ms doctor --data good --tls-cert tls/server.pem --tls-key tls/server.key
echo key >callback.key && chmod 640 callback.key
expect 1 '…fail  secret files   callback_key_file: callback.key has mode 0640: …
                     → chmod 600 callback.key…' ms doctor --data good --callback-key-file callback.key
expect 1 '…fail  secret files   first_token_file: gone.token does not exist…' ms doctor --data good --first-token-file gone.token
expect 1 '…fail  database …' ms doctor --store "postgres://jobs@127.0.0.1:1/jobs"

# The state of the server: its certificate expires in 5 days.
chmod 600 tls/server.key
(ulimit -n 1000 && exec "$mainspring" serve --data "$work/secure" --listen 127.0.0.1:0 --json --log-level off --tls-cert tls/server.pem --tls-key tls/server.key >secure.json) &
secure=$!
await test -s secure.json
secure_url=https://localhost:$(sed 's/.*"url":"[^"]*:\([0-9]*\)".*/\1/' secure.json)
# Limits are those of the server, not of the shell.
expect 0 '…warn  open files     the server: at most 1000; 20000 connections need 20512
…warn  server         certificate: valid until …' ms doctor --data good --server "$secure_url" --ca-file tls/ca.pem
kill "$secure"
wait "$secure"
# Invalid settings are a finding; the other settings of the file count.
printf 'data = "good"\nno_setting = 1\n' >bad.toml
expect 1 'fail  settings       bad.toml:2: there is no setting "no_setting". …
ok    kernel         …ok    data directory good…' ms doctor --config bad.toml
expect 1 'fail  settings       …gone.toml…ok    kernel         …' ms doctor --config gone.toml

# -- support-bundle ---------------------------------------------------------------------------------
canary=canary5ecret
ms enqueue "canaries" fails "{\"password\":\"$canary-args\"}" --header "auth=$canary-header" >/dev/null
ms enqueue "canaries" good "{\"n\":\"$canary-args\"}" >/dev/null
"$mainspring" work --queue canaries --exec "sh -c 'read -r job; case \$job in *good*) echo \"{\\\"r\\\":\\\"$canary-result\\\"}\";; *) echo $canary-error >&2; exit 1;; esac'" --retry-after 1h >worker.log 2>&1 &
worker=$!
await bash -c "'$mainspring' jobs list --queue canaries --state retryable | grep fails"
await bash -c "'$mainspring' jobs list --queue canaries --state completed | grep good"
kill "$worker"
wait "$worker"
ms schedules set nightly --cron '@daily' --queue canaries --kind k --args "{\"key\":\"$canary-schedule\"}" >/dev/null
ms queues limit canaries --fair on --weight "$canary-key=3" >/dev/null
ms queues pause canaries --reason "$canary-reason" >/dev/null
token=$(ms token create helper --scope read --scope admin --scope metrics)
echo "$token" >token && chmod 600 token
secrets() {
  MAINSPRING_STORE="postgres://jobs:$canary-database@127.0.0.1:1/jobs?password=$canary-parameter" \
    ms support-bundle --token-file token --output "$1"
}
expect 0 'bundle.tar.gz: … entries. Review it before you send it.' secrets bundle.tar.gz
expect 0 '-rw-------' bash -c "ls -l bundle.tar.gz | cut -c1-10"
mkdir unpacked && tar -xzf bundle.tar.gz -C unpacked
expect 0 'doctor.jsonl
server/audit_head.json
server/breakers.json
server/health.json
server/metrics.txt
server/queues.jsonl
server/ready.json
server/schedules.jsonl
server/version.json
server/workers.json
settings.jsonl
system/cgroup.txt
system/limits.txt
system/loadavg.txt
system/meminfo.txt
system/mountinfo.txt
system/os-release.txt
system/uname.txt
version.txt' bash -c 'cd unpacked/* && find . -type f | cut -c3- | LC_ALL=C sort'
expect 1 '' grep -rl "$canary" unpacked
expect 1 '' grep -rlF "$token" unpacked
expect 0 '…"name":"canaries"…"reason":"***"…"weights":{"key 1":3}…' bash -c 'cat unpacked/*/server/queues.jsonl'
expect 0 '…mainspring_build_info…' bash -c 'cat unpacked/*/server/metrics.txt'
expect 0 '{"name":"nightly","queue":"canaries",…' bash -c 'cat unpacked/*/server/schedules.jsonl'
expect 0 '…"value":"postgres://jobs:***@127.0.0.1:…"from":"environment MAINSPRING_STORE"…' bash -c 'grep MAINSPRING_STORE unpacked/*/settings.jsonl'
expect 0 'bad.tar.gz: …' ms support-bundle --output bad.tar.gz --config bad.toml
expect 0 'bad.toml:2: there is no setting "no_setting". …' bash -c 'tar -xzOf bad.tar.gz --wildcards "*/settings_errors.txt"'
expect 74 'mainspring: bundle.tar.gz: File exists' ms support-bundle --output bundle.tar.gz
expect 74 'mainspring: nowhere/x.tar.gz: No such file or directory' ms support-bundle --output nowhere/x.tar.gz
expect 64 'mainspring: --output: must not be empty' ms support-bundle --output ''
expect 0 '{"file":"away.tar.gz","entries":…}' ms support-bundle --output away.tar.gz --server "$closed" --data "$work/data" --json
expect 0 '…/server/version.json
…/store.json…' bash -c "tar -tzf away.tar.gz | grep -E 'server|store' | sort; echo"
expect 0 'not read: …' bash -c 'tar -xzOf away.tar.gz --wildcards "*/server/version.json"'

echo "$passed passed, $failed failed"
((failed == 0))
