#!/bin/bash
# Runs compose.yaml with Docker and Docker Compose. Usage: packaging/container/compose_check.sh LAYOUT [ROOT]
# LAYOUT is an image of `./package image`. Docker comes from a Debian 13 that mmdebstrap creates, because Debian 12 has no
# Compose 2. Its PostgreSQL 17 becomes the image postgres:17, so no registry is needed. ROOT keeps that Debian for more runs.
# Everything runs in namespaces: network with a loopback device only, processes, mounts.
# Needs root, mmdebstrap, iproute2, curl and Debian's mirror. Exit code 77: one of them is missing, or Docker cannot run here.
set -euo pipefail
skip() { printf 'compose_check: skipped: %s\n' "$*" >&2; exit 77; }
say() { printf '%s\n' "$*" >&2; }
here=$(dirname "$(readlink -f "$0")")
mirror=${MAINSPRING_DEBIAN_MIRROR:-http://deb.debian.org/debian}

if [[ ${MAINSPRING_COMPOSE_CHECK:-} != inside ]]; then
  ((EUID == 0)) || skip "must be root"
  for program in mmdebstrap ip curl umoci; do
    command -v "$program" >/dev/null || skip "$program is not installed"
  done
  work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-compose.XXXXXX")
  trap 'rm -rf --one-file-system "$work"' EXIT
  root=${2:-$work/root}
  if [[ ! -e $root/usr/sbin/dockerd ]]; then
    # Without documentation, and without libraries for PostgreSQL's compiler of queries.
    excluded=(/usr/share/{doc,man,locale,i18n}/'*' /usr/lib/cni/'*' /usr/lib/'*'/lib{LLVM,z3}'*' /usr/bin/ctr)
    mmdebstrap --variant=minbase --mode=root --format=directory --dpkgopt=force-unsafe-io "${excluded[@]/#/--dpkgopt=path-exclude=}" \
      --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"' \
      --aptopt='APT::Install-Recommends "false"' \
      --include=docker.io,docker-cli,docker-compose,iptables,skopeo,postgresql-17,ca-certificates \
      trixie "$root" "$mirror" >"$work/log" 2>&1 ||
      { tail -n 5 "$work/log" >&2; skip "cannot create a Debian 13 with Docker"; }
  fi
  status=0
  MAINSPRING_COMPOSE_CHECK=inside unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
    "$here/compose_check.sh" "$(readlink -f "$1")" "$(readlink -f "$root")" "$work" &
  inside=$!
  # Docker and its containers end with their namespace, and leave empty control groups. unshare ignores SIGTERM.
  # shellcheck disable=SC2317
  finish() {
    trap '' INT TERM
    kill -KILL "$inside" 2>/dev/null || true
    wait "$inside" 2>/dev/null || true
    # Processes that were killed need a moment to leave them.
    local i
    for ((i = 0; i < 50; ++i)); do
      find /sys/fs/cgroup -depth -type d -path "*/${work##*/}*" -exec rmdir {} + 2>/dev/null || true
      [[ -n $(find /sys/fs/cgroup -maxdepth 2 -name "${work##*/}") ]] || break
      sleep 0.1
    done
    rm -rf --one-file-system "$work"
  }
  trap finish EXIT
  trap 'exit 130' INT TERM
  wait "$inside" || status=$?
  exit "$status"
fi

# -- inside the namespaces --------------------------------------------------------------------------------------------------
layout=$1 root=$2 work=$3
ip link set lo up
mkdir -p "$work/docker" "$work/compose" "$root/layout" "$root/var/lib/docker" "$root$work/compose"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount --bind "$layout" "$root/layout"
# In memory if there is enough: containers and databases of a check need no disk that is synchronised.
if (($(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo) > 4000000)); then
  mount -t tmpfs -o size=3g tmpfs "$root/var/lib/docker"
else
  mount --bind "$work/docker" "$root/var/lib/docker"
fi
# Docker and this script see the directory of compose.yaml at the same path.
mount --bind "$work/compose" "$root$work/compose"
cp "$here/compose.yaml" "$here/setup.sh" "$work/compose"
version=$(umoci list --layout "$layout" | sed -n 1p)
image=mainspring:$version

# inside USER COMMAND…: in the Debian with Docker, in the directory of compose.yaml. USER is a number.
inside() {
  local user=$1
  shift
  chroot "$root" setpriv --reuid "$user" --regid "$user" --groups "$user,$(awk -F: '$1 == "docker" { print $3 }' "$root/etc/group")" \
    env -i --chdir="$work/compose" PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp "$@"
}
docker() { inside 0 docker "$@"; }
compose() { inside 0 docker compose "$@" </dev/null; }
ok() { say "ok: $*"; }
# The command that failed may have its output redirected: 3 is standard error.
exec 3>&2
show_logs() {
  say "FAILED at line $1: $2"
  tail -n 5 "$work/output" "$work/dockerd.log" >&2 || true
  local name
  docker ps -a >&2 || true
  for name in $(docker ps -a --format '{{.Names}}'); do
    say "-- $name"
    docker logs --tail 12 "$name" >&2 || true
  done
}
trap 'show_logs "$LINENO" "$BASH_COMMAND" 2>&3' ERR
set -E
eventually() {
  local i
  for ((i = 0; i < 600; ++i)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  say "not in time: $*"
  return 1
}
# fails TEXT COMMAND…: COMMAND fails, and its output contains TEXT.
fails() {
  local text=$1
  shift
  if "$@" >"$work/output" 2>&1; then say "no error: $*"; return 1; fi
  [[ $(cat "$work/output") == *"$text"* ]] || { say "an error without \"$text\": $(cat "$work/output")"; return 1; }
}

# `docker exec` enters the root of the container's mount namespace: pivot_root makes that the container, after chroot it would
# be this machine's root.
# shellcheck disable=SC2016
unshare --mount --propagation private bash -euc 'cd "$1"
  pivot_root . mnt
  umount -l /mnt
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin dockerd --cgroup-parent "/$2"' - "$root" "${work##*/}" >"$work/dockerd.log" 2>&1 &
dockerd=$!
alive() { docker info || ! kill -0 "$dockerd"; }
eventually alive
kill -0 "$dockerd" 2>/dev/null || skip "dockerd: $(tail -n 1 "$work/dockerd.log")"
inside 0 skopeo copy -q "oci:/layout:$version" "docker-daemon:$image"
docker run --rm --network none "$image" version >"$work/output" 2>&1 || skip "Docker cannot start a container: $(tail -n 1 "$work/output")"
ok "$(sed -n 1p "$work/output") in Docker $(docker version --format '{{.Server.Version}}'), Compose $(compose version --short)"

# An image with the settings and paths of postgres:17. As there, root reads the password, and a PostgreSQL that listens on a
# socket file only runs while the database is created.
cat >"$root/entrypoint.sh" <<'SCRIPT'
#!/bin/bash
set -euo pipefail
bin=$(echo /usr/lib/postgresql/*/bin)
if ((EUID == 0)); then
  POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
  export POSTGRES_PASSWORD
  install -d -m 700 -o postgres "$PGDATA" /run/postgresql
  exec setpriv --reuid postgres --regid postgres --init-groups "$0"
fi
if [[ ! -s $PGDATA/PG_VERSION ]]; then
  "$bin/initdb" -D "$PGDATA" -U "$POSTGRES_USER" --pwfile <(printf '%s\n' "$POSTGRES_PASSWORD") --auth-host scram-sha-256
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  "$bin/pg_ctl" -D "$PGDATA" -w -o "-c listen_addresses=''" start
  "$bin/createdb" -U "$POSTGRES_USER" -h /run/postgresql "$POSTGRES_DB"
  # Longer than the interval of the health check, which must not take this PostgreSQL for the database.
  sleep 4
  "$bin/pg_ctl" -D "$PGDATA" -m fast -w stop
fi
exec "$bin/postgres" -D "$PGDATA" -c listen_addresses='*'
SCRIPT
chmod 755 "$root/entrypoint.sh"
tar -C "$root" --one-file-system -c --exclude='./usr/*bin/docker*' --exclude='./usr/*bin/*containerd*' --exclude='./usr/*bin/*runc' \
  --exclude='./usr/bin/skopeo' --exclude='./usr/libexec/docker' --exclude='./var/lib/apt' --exclude='./var/cache' --exclude='./layout' \
  --exclude=./var/lib/docker --exclude=./tmp --exclude=./dev --exclude=./proc --exclude=./sys --exclude=./run . |
  docker import -c 'ENTRYPOINT ["/entrypoint.sh"]' -c 'STOPSIGNAL SIGINT' -c 'VOLUME /var/lib/postgresql/data' \
    -c 'ENV LANG=C.UTF-8 PGDATA=/var/lib/postgresql/data PATH=/usr/lib/postgresql/17/bin:/usr/sbin:/usr/bin:/sbin:/bin' - postgres:17 >/dev/null

# -- docs/guides/install.md: one container ------------------------------------------------------------------------------------
docker run -d --name server --read-only -v mainspring:/data "$image" >/dev/null
eventually docker exec server mainspring health --ready
docker exec server mainspring enqueue hello greet >/dev/null
docker exec server mainspring work --queue hello --exec '/usr/bin/mainspring version' --drain >"$work/output" 2>&1
[[ $(docker exec server mainspring jobs list --json) == *'"completed"'* ]]
docker stop --time 60 server >/dev/null
[[ $(docker inspect -f '{{.State.ExitCode}}' server) == 0 ]]
docker rm server >/dev/null
ok "one container: a job in the volume /data, a stop with exit code 0"

# -- compose.yaml: secrets --------------------------------------------------------------------------------------------------
secrets=$work/compose/secrets
url=https://localhost:8443
ask() {
  curl -sS --fail-with-body --cacert "$secrets/tls/ca.pem" -H "Authorization: Bearer $(cat "$secrets/first_token_file")" \
    -H 'Content-Type: application/json' "$url$1" "${@:2}"
}
ids() { compose ps --all -q "$@"; }
# look FORMAT [SERVICE]: FORMAT of each of its containers, one per line.
look() { ids "${@:2}" | xargs chroot "$root" docker inspect -f "$1"; }
# state_of JOB STATE: the job has the state.
state_of() { [[ $(ask "/v1/jobs/$1") == *"\"state\":\"$2\""* ]]; }
enqueue() { ask /v1/jobs -d "{\"queue\":\"$1\",\"kind\":\"greet\"}" | grep -oE '"id":[0-9]+' | head -n 1 | cut -d: -f2; }
workers() { ask /v1/workers | grep -o '"slots":' | wc -l; }
two_workers() { (($(workers) == 2)); }
healthy() { [[ $(look '{{.State.Health.Status}}' server) == healthy ]]; }
up() { compose up -d --wait --wait-timeout 120 >"$work/output" 2>&1; }
# confined UID: each container of ours has a read-only root, no capabilities and no new privileges.
confined() {
  local id status
  for id in $(ids server) $(ids worker); do
    [[ $(docker inspect -f '{{.HostConfig.ReadonlyRootfs}}' "$id") == true ]]
    status=/proc/$(docker inspect -f '{{.State.Pid}}' "$id")/status
    [[ $(awk '/^Uid:/ { print $2, $3, $4, $5 }' "$status") == "$1 $1 $1 $1" ]]
    [[ $(awk '/^CapEff:|^CapPrm:|^CapBnd:/ { print $2 }' "$status" | sort -u) == 0000000000000000 ]]
    [[ $(awk '/^NoNewPrivs:/ { print $2 }' "$status") == 1 ]]
    [[ $(awk '/^Seccomp:/ { print $2 }' "$status") == 2 ]]
  done
}

fails "secrets/" up
[[ ! -e $secrets ]]
compose down >/dev/null 2>&1
ok "without setup.sh: an error names the missing file, and no empty directory appears: $(grep -o 'bind source path.*' "$work/output" | tail -n 1)"

inside 0 ./setup.sh >/dev/null
find "$secrets" -type f -exec sha256sum {} + | sort >"$work/secrets"
inside 0 ./setup.sh >/dev/null
diff "$work/secrets" <(find "$secrets" -type f -exec sha256sum {} + | sort)
[[ -z $(find "$secrets" -type f -perm /077 ! -name '*.pem') && ! -e $work/compose/.env ]]
ok "setup.sh creates the secrets with the image; a second run keeps them"

# -- compose.yaml: up -----------------------------------------------------------------------------------------------------------
began=$SECONDS since=$(date +%s.%N)
up
[[ $(look '{{.RestartCount}}' | sort -u) == 0 ]]
# Starts and first passes of health checks, in their order.
docker events --since "$since" --until "$(date +%s.%N)" --filter label=com.docker.compose.project=mainspring \
  --filter event=start --filter event=health_status \
  --format '{{index .Actor.Attributes "com.docker.compose.service"}} {{.Action}}' >"$work/output"
diff "$work/output" - <<'EVENTS'
postgresql start
postgresql health_status: healthy
server start
server health_status: healthy
worker start
worker start
EVENTS
[[ $(ids worker | wc -l) == 2 ]]
ok "up: PostgreSQL, then the server, then two workers, each after the health check of the one before; $((SECONDS - began)) s"
confined 65532
ok "server and workers: user 65532, read-only root, no capabilities, no new privileges, seccomp"

[[ $(ask /readyz) == *'"status"'* && $(ask '/healthz?verbose') == *postgres* ]]
[[ $(curl -s -o /dev/null -w '%{http_code}' --cacert "$secrets/tls/ca.pem" $url/v1/jobs) == 401 ]]
eventually two_workers
job=$(enqueue hello)
eventually state_of "$job" completed
ok "a worker completes a job that was enqueued over TLS with the token; no token: 401"
waiting=$(enqueue later)

kill -KILL "$(look '{{.State.Pid}}' server)"
restarted() { [[ $(look '{{.RestartCount}}' server) == 1 ]] && healthy; }
began=$SECONDS
eventually restarted
state_of "$job" completed
state_of "$waiting" available
again=$(enqueue hello)
eventually state_of "$again" completed
ok "kill -9 of the server: it restarts and is healthy after $((SECONDS - began)) s, the jobs are there, and the workers complete more"

# -- packaging/kubernetes: the containers of its pods, with what a kubelet adds: secrets of links to files that the group may read,
# the pod's address, and probes that come to this address.
# secret NAME FILE…: creates the secret NAME.
secret() {
  local place=$work/compose/$1
  mkdir -p "$place/..1"
  cp "${@:2}" "$place/..1"
  chmod 755 "$place" "$place/..1"
  chmod 440 "$place/..1"/*
  chown -R 0:65532 "$place"
  ln -s ..1 "$place/..data"
  for file in "${@:2}"; do ln -s "..data/${file##*/}" "$place/${file##*/}"; done
}
# pod NAME ADDRESS SECRET MANIFEST FLAG…: starts the container of the manifest's pod. FLAG: more of `docker run`.
pod() {
  local arguments variables manifest=$here/../kubernetes/$4
  read -ra arguments < <(sed -n 's/^ *args: \[\(.*\)\]/\1/p' "$manifest" | tr -d ',"' | sed "s/\$(POD_IP)/$2/")
  read -ra variables < <(sed -n 's/^ *- {name: \([A-Z_]*\), value: \(.*\)}/-e \1=\2/p' "$manifest" | paste -sd ' ')
  docker run -d --name "$1" --network pods --ip "$2" --user 65532:65532 --group-add 65532 --read-only --cap-drop ALL \
    --security-opt no-new-privileges -v "$work/compose/$3:/credentials:ro" --tmpfs /tmp "${variables[@]}" "${@:5}" \
    "$image" "${arguments[@]}" >/dev/null
}
# probe ADDRESS PATH: as the manifests' probes.
probe() { curl -sfk --max-time 5 -o /dev/null -H 'Host: localhost' "https://$1:8443$2"; }
ask_pod() {
  curl -sSk --fail-with-body -H 'Host: localhost' -H "Authorization: Bearer $(cat "$secrets/first_token_file")" \
    -H 'Content-Type: application/json' "https://$1:8443$2" "${@:3}"
}
docker network create --subnet 10.99.0.0/24 pods >/dev/null
secret one "$secrets"/server/{tls_cert,tls_key,first_token_file,ca_file}
pod alone 10.99.0.10 one directory/statefulset.yaml -v pod:/data
for path in /readyz /livez; do eventually probe 10.99.0.10 $path; done
ask_pod 10.99.0.10 /v1/jobs >/dev/null
docker stop --time 60 alone >/dev/null
[[ $(docker inspect -f '{{.State.ExitCode}}' alone) == 0 ]]
docker rm alone >/dev/null
ok "the pod of kubernetes/directory: secret, token, probes, stop"

docker network connect --alias postgresql pods "$(ids postgresql)"
docker exec -u postgres "$(ids postgresql)" createdb -U mainspring -h /run/postgresql pods
sed 's|/mainspring$|/pods|' "$secrets/server/store_file" >"$work/store_file"
secret several "$secrets"/server/{tls_cert,tls_key,first_token_file,ca_file} "$work/store_file"
for at in 11 12; do pod "pod$at" 10.99.0.$at several postgresql/deployment.yaml; done
reached() { (($(ask_pod "$1" /metrics | sed -n 's/^mainspring_peers_reached //p') == 1)); }
for at in 11 12; do
  for path in /readyz /livez; do eventually probe 10.99.0.$at $path; done
  eventually reached 10.99.0.$at
done
ask_pod 10.99.0.12 /v1/claim -d '{"worker":"w","queues":["pods"],"wait":"30s"}' >"$work/claimed" &
claim=$!
ask_pod 10.99.0.11 /v1/jobs -d '{"queue":"pods","kind":"greet"}' >/dev/null
wait "$claim"
[[ $(cat "$work/claimed") == *'"greet"'* ]]
docker rm --force pod11 pod12 >/dev/null
pod pod13 10.99.0.13 one postgresql/deployment.yaml --restart no
[[ $(docker wait pod13) != 0 ]]
[[ $(docker logs pod13 2>&1) == *'/credentials/store_file'* ]]
docker rm pod13 >/dev/null
docker network disconnect pods "$(ids postgresql)"
docker network rm pods >/dev/null
ok "the pods of kubernetes/postgresql: the two notify each other, one claims the job of the other; none starts without store_file"

# -- compose.yaml: stop, down, up again ---------------------------------------------------------------------------------------
# A job that runs longer than the 10 s that engines give by default: its program looks at the queues twice.
cat >"$work/compose/slow.yaml" <<'YAML'
services:
  worker:
    command: [work, --queue, hello, --exec, "/usr/bin/mainspring top --count 2 --every 13s"]
YAML
compose -f compose.yaml -f slow.yaml up -d --wait >"$work/output" 2>&1
slow=$(enqueue hello)
eventually state_of "$slow" running
began=$SECONDS
compose stop >"$work/output" 2>&1
took=$((SECONDS - began))
((took > 10 && took < 60))
[[ $(look '{{.State.ExitCode}}' | sort -u) == 0 ]]
compose down >"$work/output" 2>&1
[[ -z $(docker ps -aq) ]]
ok "stop and down: every container ends with exit code 0 after $took s, while a job of 13 s ran"
up
state_of "$job" completed
state_of "$waiting" available
state_of "$slow" completed
[[ $(ask "/v1/jobs/$slow") == *'"attempt":1'* ]]
ok "a second up finds the data; the job of 13 s was completed in its first attempt"
compose down >"$work/output" 2>&1

# without SERVICE FILE…: SERVICE fails and names FILE.
without() {
  local file=$secrets/$1/$2
  mv "$file" "$file.away"
  fails "$2" compose run --rm --no-deps -T "$1"
  say "  $(grep -o 'mainspring: .*' "$work/output" | head -n 1)"
  mv "$file.away" "$file"
}
for file in store_file tls_cert tls_key; do without server "$file"; done
for file in token_file ca_file; do without worker "$file"; done
for path in postgresql server worker; do
  mv "$secrets/$path" "$secrets/$path.away"
  fails "/secrets/$path" up
  mv "$secrets/$path.away" "$secrets/$path"
done
compose down --volumes >"$work/output" 2>&1

# A user of the group docker, who cannot give files to another user.
rm -rf "$secrets"
chown 1000:1000 "$work/compose"
inside 1000 ./setup.sh >/dev/null
compose up -d --wait postgresql >"$work/output" 2>&1
without server first_token_file
ok "each missing secret gives an error that names it"
inside 1000 docker compose up -d --wait --wait-timeout 120 >"$work/output" 2>&1 </dev/null
confined 1000
job=$(enqueue hello)
eventually state_of "$job" completed
inside 1000 docker compose down --volumes >"$work/output" 2>&1 </dev/null
ok "setup.sh and up by a user who is not root: the containers run as that user, and a worker completes a job"
kill "$dockerd"
wait "$dockerd" || true
say "compose_check: all well"
