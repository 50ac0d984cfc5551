#!/bin/bash
# Checks the packages and the image of a build tree. See ./package --help. Usage: packaging/check.sh BUILD
set -euo pipefail
build=$(readlink -f "$1")
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh
need_build "$build"
((EUID == 0)) || die "must be root: packages are installed in a Debian of their own"
work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-check.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
# What a check has started, by its id: ended with the check.
server=""
passed=0 failed=0
# check NAME COMMAND…: runs COMMAND in a subshell that ends with the first command that fails. It is not run as a condition,
# because that would switch `set -e` off. A failed check prints the command that failed and the end of its output.
check() {
  local name=$1 status=0
  shift
  set +e
  (
    set -eE
    trap 'echo "FAILED with status $? (${PIPESTATUS[*]}) at ${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND"' ERR
    trap '[[ -z $server ]] || kill -KILL "$server" 2>/dev/null || true' EXIT
    "$@"
  ) >"$work/output" 2>&1
  status=$?
  set -e
  if ((status == 0)); then
    passed=$((passed + 1))
    say "$name: good$(sed -n 's/.*note: /, /p' "$work/output" | tr -d '\n')"
  else
    failed=$((failed + 1))
    say "$name: failed. The end of its output:"
    tail -n 30 "$work/output" | sed 's/^/  /' >&2
  fi
}
eventually() {
  local i
  for ((i = 0; i < 600; ++i)); do
    if "$@"; then return; fi
    sleep 0.05
  done
  return 1
}

# -- packages -----------------------------------------------------------------------------------------------------------
packed() {
  packaging/deb.sh "$build" "$work/debs"
}
same_twice() {
  packaging/deb.sh "$build" "$work/again"
  diff <(cd "$work/debs" && sha256sum -- *.deb) <(cd "$work/again" && sha256sum -- *.deb)
}
no_complaints() {
  lintian --allow-root --no-cfg --pedantic --fail-on error,warning,pedantic "$work"/debs/*.deb
}

# A Debian 12 with systemd, whose services do not start: there is nothing that starts them.
root=$work/root
make_root() {
  mmdebstrap --variant=apt --mode=root --format=directory --dpkgopt=force-unsafe-io \
    --aptopt='Acquire::Languages "none"' --include=systemd,curl,gpgv,ca-certificates bookworm "$root"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir -p "$root/debs"
  cp "$work"/debs/*.deb "$root/debs"
  in_root apt-get update
}
in_root() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}
# install_debs PACKAGE…: of those that were made.
install_debs() {
  in_root sh -c "apt-get install -y --no-install-recommends $(printf ' /debs/%s_*.deb' "$@")"
}
# Files outside of caches and logs, with owner, mode and content.
state() {
  in_root find / -xdev \( -path /proc -o -path /sys -o -path /debs -o -path /var/cache -o -path /var/log -o -path /var/lib/apt \
    -o -path /var/lib/dpkg -o -path /tmp -o -path /var/lib/systemd/deb-systemd-helper-enabled -o -name 'ld.so.cache' \
    -o -path '/etc/passwd*' -o -path '/etc/group*' -o -path '/etc/shadow*' -o -path '/etc/gshadow*' -o -path '/etc/.pwd.lock' \) -prune \
    -o -not -type d -printf '%p %u %m %l\n' -o -type d -printf '%p/ %u %m\n' | sort
}
clean_purge() {
  # Its libraries stay: they are not ours.
  install_debs mainspring
  in_root apt-get purge -y mainspring
  state >"$work/before"
  install_debs mainspring mainspring-jobs
  in_root sh -c 'apt-get install -y --reinstall /debs/mainspring_*.deb /debs/mainspring-jobs_*.deb'
  in_root apt-get remove -y mainspring mainspring-jobs
  [[ -e $root/etc/mainspring/config.toml ]] || { echo "remove has removed the settings"; return 1; }
  in_root apt-get purge -y mainspring mainspring-jobs
  state >"$work/after"
  diff "$work/before" "$work/after"
}
upgrade_keeps_settings() {
  install_debs mainspring
  echo 'log_level = "warn"' >>"$root/etc/mainspring/config.toml"
  local settings
  settings=$(cat "$root/etc/mainspring/config.toml")
  # A later version, whose settings differ too.
  dpkg-deb -R "$work"/debs/mainspring_*.deb "$work/newer"
  sed -i 's/^Version: .*/&+later/' "$work/newer/DEBIAN/control"
  echo '# later' >>"$work/newer/etc/mainspring/config.toml"
  dpkg-deb --root-owner-group -b "$work/newer" "$root/debs/newer.deb"
  in_root dpkg --force-confold -i /debs/newer.deb
  [[ $(cat "$root/etc/mainspring/config.toml") == "$settings" ]] || { echo "the settings were replaced"; return 1; }
  [[ $(in_root stat -c '%U:%G %a' /etc/mainspring/config.toml) == "root:mainspring 640" ]] || { echo "others can read the settings"; return 1; }
  in_root apt-get purge -y mainspring
}
data_survives_purge() {
  install_debs mainspring
  in_root sh -c 'setpriv --reuid mainspring --regid mainspring --clear-groups mainspring token create admin --scope all --data /var/lib/mainspring'
  in_root apt-get purge -y mainspring | tee "$work/purge"
  grep -q 'the data in /var/lib/mainspring stays' "$work/purge"
  [[ -e $root/var/lib/mainspring/mainspring.db ]]
  rm -rf "${root:?}/var/lib/mainspring"
}
# What the unit does, without systemd: the user, the settings, the directory.
serve_in_root() {
  chroot "$root" setpriv --reuid mainspring --regid mainspring --clear-groups --no-new-privs \
    env -i PATH=/usr/bin:/bin /usr/bin/mainspring serve --config /etc/mainspring/config.toml --listen 127.0.0.1:18080 >"$work/serve.log" 2>&1 &
  server=$!
}
first_job() {
  local began took
  # With its libraries, whose packages are downloaded already.
  in_root apt-get autoremove -y
  began=$(date +%s.%N)
  install_debs mainspring
  serve_in_root
  eventually curl -sf http://127.0.0.1:18080/readyz -o /dev/null
  curl -sf http://127.0.0.1:18080/v1/jobs -H 'Content-Type: application/json' -d '{"queue":"hello","kind":"greet"}'
  took=$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')
  echo "note: $took s"
  in_root mainspring work --queue hello --exec cat --once --server http://127.0.0.1:18080
  kill "$server"
  wait "$server"
  server=""
  awk -v took="$took" 'BEGIN { exit !(took <= 10) }'
}
other_users() {
  in_root setpriv --reuid 65534 --regid 65534 --clear-groups mainspring config --explain | contains 'default'
  if in_root setpriv --reuid 65534 --regid 65534 --clear-groups cat /etc/mainspring/config.toml; then return 1; fi
  in_root apt-get purge -y mainspring
}
units_in_root() {
  install_debs mainspring mainspring-jobs
  in_root systemctl is-enabled mainspring.service mainspring-host.service
  [[ $(in_root systemctl is-enabled mainspring-backup.timer || true) == disabled ]]
  [[ $(in_root systemctl is-enabled mainspring-verify.timer || true) == disabled ]]
  in_root sh -c 'systemd-analyze verify --man=no mainspring.service mainspring-host.service mainspring-backup.timer mainspring-verify.timer'
  in_root sh -c 'man -w mainspring-jobs 2>/dev/null || ls /usr/share/man/man1/mainspring-jobs.1.gz'
}
# The units under a systemd of their own: the last use of this Debian.
systemd_runs() {
  install_debs mainspring mainspring-jobs
  packaging/systemd_check.sh "$root"
}
library() {
  dpkg-deb -x "$work"/debs/libmainspring-dev_*.deb "$work/dev"
  local multiarch
  multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
  grep -qx "libdir=\${prefix}/lib/$multiarch" "$work/dev/usr/lib/$multiarch/pkgconfig/mainspring.pc"
  grep -q "\${_IMPORT_PREFIX}/lib/$multiarch/libmainspring.a" "$work/dev/usr/lib/$multiarch/cmake/Mainspring/MainspringTargets-release.cmake"
  if grep -q '_IMPORT_PREFIX}" PATH' "$work/dev/usr/lib/$multiarch/cmake/Mainspring/MainspringTargets.cmake"; then return 1; fi
}

# -- the image ------------------------------------------------------------------------------------------------------------
image() { packaging/container/image.sh "$build" "$work/image"; }
image_size() {
  local packed
  packed=$(du -sm "$work/image" | cut -f1)
  umoci unpack --image "$work/image:$(image_tag)" "$work/bundle"
  local unpacked
  unpacked=$(du -sm --apparent-size "$work/bundle/rootfs" | cut -f1)
  echo "note: $packed MiB packed, $unpacked MiB unpacked"
  ((unpacked <= 60))
}
image_tag() { umoci list --layout "$work/image" | sed -n 1p; }
# The image's own command and environment with more arguments, as its user, in namespaces, with a read-only root: what an
# engine does, without one.
image_runs() {
  mkdir -p "$work/data"
  chown 65532:65532 "$work/data"
  python3 - "$work/bundle/config.json" >"$work/image.env" <<'PYTHON'
import json, shlex, sys
process = json.load(open(sys.argv[1]))["process"]
print("user=%d:%d" % (process["user"]["uid"], process["user"]["gid"]))
print("command=(%s)" % " ".join(map(shlex.quote, process["args"])))
print("variables=(%s)" % " ".join(map(shlex.quote, process["env"])))
PYTHON
  # shellcheck source=/dev/null
  source "$work/image.env"
  # shellcheck disable=SC2154
  [[ $user == 65532:65532 && ${command[*]} == "/usr/bin/mainspring serve" ]]
  # shellcheck disable=SC2154,SC2016
  unshare --mount --pid --fork --ipc --kill-child bash -euc '
    root=$1 data=$2 user=$3
    shift 3
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount --bind "$data" "$root/data"
    mount -o remount,bind,ro "$root"
    exec chroot --userspec="$user" "$root" "$@"' - \
    "$work/bundle/rootfs" "$work/data" "$user" /usr/bin/mainspring "${command[@]:1}" --listen 127.0.0.1:18081 --data /data \
    >"$work/image.log" 2>&1 &
  server=$!
  eventually curl -sf http://127.0.0.1:18081/readyz -o /dev/null || { cat "$work/image.log"; return 1; }
  curl -sf http://127.0.0.1:18081/v1/jobs -H 'Content-Type: application/json' -d '{"queue":"hello","kind":"greet"}'
  [[ $(stat -c %u "$work/data/mainspring.db") == 65532 ]]
  # The image has time zones.
  curl -sf http://127.0.0.1:18081/v1/schedules/nightly -X PUT -H 'Content-Type: application/json' \
    -d '{"cron":"0 3 * * *","time_zone":"Europe/Berlin","job":{"queue":"hello","kind":"greet"}}'
  # unshare itself ignores the signal.
  kill "$(cat "/proc/$server/task/$server/children")"
  wait "$server"
  server=""
  grep -q 'stopp' "$work/image.log"
}
# may_skip COMMAND…: runs COMMAND. Exit code 77 is success with a note that says what is missing.
may_skip() {
  local status=0
  "$@" 2>"$work/skipped" || status=$?
  cat "$work/skipped"
  if ((status == 77)); then
    sed -n 's/.*skipped: /note: skipped: /p' "$work/skipped"
    return 0
  fi
  return "$status"
}
sbom_lists() {
  python3 -c 'import json, sys; names = {one["name"] for one in json.load(open(sys.argv[1]))["packages"]}; assert {"mainspring", "libssl3", "libsqlite3-0"} <= names, names' "$work/image.spdx.json"
}

check "packages are made" packed
check "packages are the same when made twice" same_twice
check "lintian has no complaint" no_complaints
check "the library's files know where they are" library
check "a fresh Debian is made" make_root
mount -t proc proc "$root/proc"
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
check "install, reinstall, remove and purge leave nothing" clean_purge
check "an upgrade keeps the settings and who may read them" upgrade_keeps_settings
check "a purge keeps the data and says where it is" data_survives_purge
check "from apt install to the first job in 10 s" first_job
check "users who may not read the settings can use the program" other_users
check "services are enabled, timers are not" units_in_root
check "systemd runs, watches, restarts and stops the services" systemd_runs
check "every proxy" env MAINSPRING_PROXIES=all tests/packaging/proxy_test.py "$build/mainspring"
check "the image is made" image
check "the image has at most 60 MiB" image_size
check "a server runs in the image as its user, with a read-only root" image_runs
check "podman runs the image: read-only root, health check, SIGTERM, SIGKILL" \
  may_skip packaging/container/engine_check.sh "$work/image"
check "Docker Compose runs compose.yaml: order, TLS, workers, SIGKILL, down, missing secrets" \
  may_skip packaging/container/compose_check.sh "$work/image"
check "the list of what is in the image" sbom_lists
echo "$passed passed, $failed failed"
((failed == 0))
