#!/bin/bash
# Boots systemd in a directory with an installed Debian, in namespaces of its own, and checks the services there.
# Usage: packaging/systemd_check.sh ROOT. ROOT has the packages mainspring and mainspring-jobs, systemd and curl. Needs root.
set -Eeuo pipefail
if [[ ${1:-} == --boot ]]; then
  # The first process of the namespaces: makes what systemd expects, and becomes it.
  root=$2
  mount --make-rprivate /
  mount --bind "$root" "$root"
  cd "$root"
  mount -t proc proc proc
  mount -t tmpfs tmpfs dev
  for device in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
    read -r name major minor <<<"$device"
    mknod -m 666 "dev/$name" c "$major" "$minor"
  done
  mkdir dev/pts dev/shm
  mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
  ln -s pts/ptmx dev/ptmx
  mount -t tmpfs tmpfs dev/shm
  ln -s /proc/self/fd dev/fd
  mount -t tmpfs tmpfs run
  mount -t sysfs -o ro sysfs sys
  if [[ -d /sys/fs/cgroup/systemd ]]; then
    mount -t tmpfs tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
  else
    mount -t cgroup2 cgroup2 sys/fs/cgroup
  fi
  # Not chroot: the sandboxes of services start from the root of the mount namespace.
  pivot_root . .
  umount -l .
  # Credentials are mounted by a child of systemd; as in a container made by systemd-nspawn, mounts propagate.
  mount --make-rshared /
  cd /
  exec env -i container=oci PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target
fi

root=$(readlink -f "$1")
self=$(readlink -f "$0")
hierarchy=/sys/fs/cgroup
[[ ! -d /sys/fs/cgroup/systemd ]] || hierarchy=/sys/fs/cgroup/systemd
group=$hierarchy/mainspring-check-$$
mkdir "$group"
outer=""
finish() {
  [[ -z $outer ]] || kill -KILL "$outer" 2>/dev/null || true
  [[ -z $outer ]] || wait "$outer" 2>/dev/null || true
  find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
}
trap finish EXIT
: >"$root/etc/machine-id"
(
  echo "$BASHPID" >"$group/cgroup.procs"
  exec unshare --mount --pid --fork --ipc --uts --net --cgroup --kill-child "$self" --boot "$root"
) >"$root/boot.log" 2>&1 &
outer=$!

eventually() {
  local i
  for ((i = 0; i < 1200; ++i)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.05
  done
  echo "not in time: $*" >&2
  return 1
}
first=""
# The first process in the new namespaces is the only child of unshare.
booted() { first=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null) && first=${first%% *} && [[ -n $first && $(cat "/proc/$first/comm") == systemd ]]; }
eventually booted
inside() { nsenter -t "$first" --mount --pid --net --ipc --uts --cgroup --root --wd=/ env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }
eventually inside systemctl is-active sysinit.target
# A network namespace has a loopback device that is down.
python3 - "$first" <<'PYTHON'
import ctypes, fcntl, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
with open(f"/proc/{sys.argv[1]}/ns/net") as file:
    assert libc.setns(file.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
with socket.socket() as one:
    fcntl.ioctl(one, 0x8914, struct.pack("16sh", b"lo", 1))
PYTHON

shows() { [[ $(inside systemctl show -P "$2" "$1") == "$3" ]]; }
say() { printf 'ok: %s\n' "$*"; }
ready() { inside curl -sf http://127.0.0.1:8080/readyz -o /dev/null; }
enqueue() { inside curl -sf http://127.0.0.1:8080/v1/jobs -H 'Content-Type: application/json' -d "{\"queue\":\"$1\",\"kind\":\"k\"}"; }
drop_in() {
  mkdir -p "$root/etc/systemd/system/$1.d"
  cat >"$root/etc/systemd/system/$1.d/check.conf"
  inside systemctl daemon-reload
}
on_failure() {
  inside journalctl -n 40 --no-pager -u 'mainspring*' >&2 || true
  inside systemctl status --no-pager 'mainspring*' >&2 || true
}
trap 'echo "FAILED at line $LINENO: $BASH_COMMAND" >&2; on_failure; exit 1' ERR

inside systemctl restart mainspring
shows mainspring ActiveState active
ready
[[ $(inside systemctl show -P StatusText mainspring) == "listening on http://127.0.0.1:8080"* ]]
say "systemctl start waits until the server takes requests, and shows where it listens"
enqueue hello
pid=$(inside systemctl show -P MainPID mainspring)
[[ $(inside stat -c %U "/proc/$pid") == mainspring ]]
[[ $(inside stat -c '%U %a' /var/lib/mainspring) == "mainspring 700" ]]
say "the server runs as its user"
inside grep -q 'Seccomp:.*2' "/proc/$pid/status"
inside grep -q 'NoNewPrivs:.*1' "/proc/$pid/status"
inside grep -q 'CapBnd:.*0000000000000000' "/proc/$pid/status"
say "the server has a filter of system calls and no capability"
inside systemctl reload mainspring
shows mainspring ActiveState active
[[ $(inside systemctl show -P MainPID mainspring) == "$pid" ]]
say "systemctl reload keeps the process"

printf '[Service]\nWatchdogSec=2\n' | drop_in mainspring.service
inside systemctl restart mainspring
pid=$(inside systemctl show -P MainPID mainspring)
inside sh -c "kill -STOP $pid"
restarted() { [[ $(inside systemctl show -P NRestarts mainspring) -ge 1 ]] && ready; }
eventually restarted
[[ $(inside mainspring jobs list --json) == *'"hello"'* ]]
say "a server that hangs is ended by the watchdog and started again, and the job is there"
rm "$root/etc/systemd/system/mainspring.service.d/check.conf"

inside mainspring tls init --dir /etc/mainspring/tls
drop_in mainspring.service <<'UNIT'
[Service]
LoadCredential=tls_cert:/etc/mainspring/tls/server.pem
LoadCredential=tls_key:/etc/mainspring/tls/server.key
UNIT
inside systemctl restart mainspring
inside curl -sf --cacert /etc/mainspring/tls/ca.pem https://localhost:8080/readyz -o /dev/null
say "certificate and key come as credentials; only root can read the files"
inside systemctl reload mainspring
inside systemctl is-active mainspring
rm "$root/etc/systemd/system/mainspring.service.d/check.conf"
inside systemctl daemon-reload
inside systemctl restart mainspring

inside systemctl start mainspring-backup.service
inside sh -c 'ls /var/backups/mainspring/*Z/mainspring.db' >/dev/null
inside systemctl start mainspring-verify.service
say "the services of the timers back up and check the store of a running server"
inside systemctl enable --now mainspring-backup.timer mainspring-verify.timer
inside systemctl is-active mainspring-backup.timer mainspring-verify.timer
inside systemctl disable --now mainspring-backup.timer mainspring-verify.timer

mkdir -p "$root/var/lib/mainspring-jobs/folders/queues/who"
cat >"$root/var/lib/mainspring-jobs/folders/queues/who/run.sh" <<'JOB'
[ "$(id -un)" = mainspring-jobs ] && ! cat /var/lib/mainspring/mainspring.db >/dev/null 2>&1
JOB
inside systemctl restart mainspring-host
shows mainspring-host ActiveState active
enqueue who
completed() { [[ $(inside mainspring jobs list --queue "$1" --json) == *'"completed"'* ]]; }
eventually completed who
say "a script in a folder runs as a user who cannot read the store"

printf 'QUEUE=hello\nPROGRAM=/usr/bin/mainspring version\nFLAGS=--slots 2\n' >"$root/etc/mainspring/worker-hello.conf"
inside systemctl start mainspring-worker@hello
eventually completed hello
say "a worker runs its program for each job"
inside systemctl stop mainspring-worker@hello

echo 'log_level = "loud"' >>"$root/etc/mainspring/config.toml"
inside systemctl restart mainspring 2>/dev/null || true
eventually shows mainspring ActiveState failed
shows mainspring ExecMainStatus 64
shows mainspring NRestarts 0
say "a server with a bad setting is not restarted"
sed -i '/log_level = "loud"/d' "$root/etc/mainspring/config.toml"
inside systemctl reset-failed mainspring
inside systemctl start mainspring
inside systemctl stop mainspring mainspring-host
shows mainspring Result success
say "systemctl stop ends the services cleanly"
if [[ -n ${MAINSPRING_SYSTEMD_SHELL:-} ]]; then inside bash || true; fi
