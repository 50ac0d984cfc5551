#!/bin/bash
# Runs the image in podman. Usage: packaging/container/engine_check.sh LAYOUT. LAYOUT is an image of `./package image`.
# Needs root, podman, iproute2 and umoci. Everything runs in a network namespace with a loopback device only.
# Exit code 77: one of them is missing, or podman cannot start a container here.
set -euo pipefail
skip() { printf 'engine_check: skipped: %s\n' "$*" >&2; exit 77; }
((EUID == 0)) || skip "must be root"
for program in podman ip umoci; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
if [[ ${MAINSPRING_ENGINE_CHECK:-} != inside ]]; then
  self=$(readlink -f "$0") layout=$(readlink -f "$1")
  export MAINSPRING_ENGINE_CHECK=inside
  exec unshare --net --mount --propagation private "$self" "$layout"
fi
ip link set lo up
layout=$1
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-engine.XXXXXX")
mkdir "$work/run"

# configure RUNTIME: podman keeps everything in $work. vfs needs no overlay file system, cgroupfs needs no systemd. podman
# raises the limits of files and processes, which needs CAP_SYS_RESOURCE; low values work without it.
configure() {
  cat >"$work/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=1024:1024"]
[engine]
runtime = "$1"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "$work/run"
CONF
  printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/storage" "$work/run" >"$work/storage.conf"
  export CONTAINERS_CONF=$work/containers.conf CONTAINERS_STORAGE_CONF=$work/storage.conf
}
finish() {
  podman rm --all --force --time 0 >/dev/null 2>&1 || true
  umount -R "$work/storage" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap finish EXIT
# The command that failed may have its output redirected: 3 is standard error.
exec 3>&2
trap '{ say "FAILED at line $LINENO: $BASH_COMMAND"; show_logs; } 2>&3' ERR
set -E
show_logs() {
  local name
  for name in $(podman ps --all --format '{{.Names}}'); do
    say "-- $name"
    podman logs --tail 20 "$name" >&2 || true
  done
}
ok() { say "ok: $*"; }
eventually() {
  local i
  for ((i = 0; i < 1200; ++i)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.05
  done
  say "not in time: $*"
  return 1
}

version=$(umoci list --layout "$layout" | sed -n 1p)
load() {
  # podman makes the image's name from the path, and refuses capital letters in it.
  (cd "$(dirname "$layout")" && podman pull -q "oci:$(basename "$layout"):$version") >"$work/id" &&
    podman tag "$(cat "$work/id")" "mainspring:$version" &&
    podman run --rm --network none "mainspring:$version" version >"$work/version"
}
runtime=crun
configure crun
if ! load 2>"$work/error"; then
  # crun refuses a machine with cgroups of both versions; runc does not.
  runtime=runc
  command -v runc >/dev/null || skip "podman cannot start a container with crun: $(tail -n 1 "$work/error")"
  configure runc
  load 2>"$work/error" || skip "podman cannot start a container: $(tail -n 1 "$work/error")"
fi
ok "podman loads and runs the image: $(sed -n 1p "$work/version"), $(podman --version), $runtime"

url=http://127.0.0.1:18082
# A health check as text would need a shell.
ready='["/usr/bin/mainspring", "health", "--ready"]'
start() {
  podman run -d --name mainspring --network host --read-only --cap-drop ALL --security-opt no-new-privileges \
    -v mainspring-data:/data -e MAINSPRING_SERVER=$url --health-cmd "$ready" --health-interval disable \
    "mainspring:$version" serve --listen 127.0.0.1:18082 >/dev/null
  eventually curl -sf $url/readyz
}
state() { podman inspect --format "{{.State.$1}}" mainspring; }
stopped() { [[ $(state Running) == false ]]; }
start
[[ $(podman inspect --format '{{.HostConfig.ReadonlyRootfs}}' mainspring) == true ]]
pid=$(state Pid)
[[ $(awk '/^Uid:/ { print $2 }' "/proc/$pid/status") == 65532 ]]
[[ $(awk '/^CapEff:/ { print $2 }' "/proc/$pid/status") == 0000000000000000 ]]
[[ $(awk '/^NoNewPrivs:/ { print $2 }' "/proc/$pid/status") == 1 ]]
if podman exec mainspring /usr/bin/mainspring token create x --scope read --data /usr/share/x >"$work/refused" 2>&1; then false; fi
contains -i 'read-only' <"$work/refused"
ok "the server runs as user 65532, without capabilities, with a read-only root"
podman healthcheck run mainspring
ok "the health check of the container passes"
curl -sf $url/v1/jobs -H 'Content-Type: application/json' -d '{"queue":"hello","kind":"greet"}' >/dev/null
volume=$(podman volume inspect --format '{{.Mountpoint}}' mainspring-data)
[[ $(stat -c %u "$volume/mainspring.db") == 65532 ]]

began=$(date +%s%N)
podman stop --time 30 mainspring >/dev/null
took=$((($(date +%s%N) - began) / 1000000))
[[ $(state ExitCode) == 0 ]]
podman logs mainspring >"$work/log" 2>&1
contains 'stopp' <"$work/log"
ok "podman stop (SIGTERM) ends the server with exit code 0 after $took ms"
podman rm mainspring >/dev/null
start
[[ $(curl -sf $url/v1/jobs) == *'"hello"'* ]]
ok "a new container over the same volume has the job"
podman kill --signal KILL mainspring >/dev/null
eventually stopped
if podman healthcheck run mainspring 2>/dev/null; then false; fi
podman start mainspring >/dev/null
eventually curl -sf $url/readyz
podman exec mainspring /usr/bin/mainspring work --queue hello --exec '/usr/bin/mainspring version' --once >/dev/null 2>&1
[[ $(curl -sf $url/v1/jobs) == *'"completed"'* ]]
ok "after kill -9 the job is still there, and a worker in the container completes it"
podman rm --force --time 5 mainspring >/dev/null
say "engine_check: all well"
