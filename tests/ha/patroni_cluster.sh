#!/bin/bash
# Three PostgreSQL servers under Patroni and etcd, each in a network namespace of its own, on this one machine.
#
#   patroni_cluster.sh within COMMAND…   runs COMMAND where the verbs below work; nothing of it is left afterwards.
#                                        Exit code 77: not possible here (no root, no namespaces, packages missing)
# and there:
#   up                     makes and starts the cluster: node 1 is the primary, one standby is synchronous
#   leader                 prints the number of the primary's node, 0 = there is none
#   members                prints a line per node: number, role, state
#   settled                succeeds if there is a primary and two standbys follow it, one of them synchronously
#   switch FROM TO         asks Patroni for a switchover
#   kill-postgres N        kill -9 of the postmaster
#   power-off N            the whole node: its network is gone first, then all its processes
#   power-on N             it is back: etcd and Patroni start again
#   cut N, heal N          its network alone
#   mode KEY VALUE         changes a setting of Patroni: mode synchronous_mode false
#
# `within` makes namespaces for network, processes and mounts. In them names and addresses cannot meet those of other
# runs, and when COMMAND ends, however it ends, the kernel ends what it started.
set -euo pipefail

PG_BIN=${PG_BIN:-/usr/lib/postgresql/15/bin}
TTL_S=${TTL_S:-20}      # how long a primary that is silent is waited for
LOOP_S=${LOOP_S:-2}     # how often Patroni looks
RETRY_S=${RETRY_S:-3}   # how long it tries to reach etcd
NET=10.77.0
CHILD=""

say() { echo "${0##*/}: $*" >&2; }
address() { echo "$NET.1$1"; }
addresses() { for n in 1 2 3; do address "$n"; done; }
inside() { ip netns exec "node$1" "${@:2}"; }

within() {
  local missing=() tool
  for tool in unshare setpriv ip runuser etcd patroni curl python3 setsid; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  [[ -x $PG_BIN/postgres ]] || missing+=("$PG_BIN/postgres")
  if ((${#missing[@]} > 0)); then say "skipped: not installed: ${missing[*]}"; exit 77; fi
  if ((EUID != 0)); then say "skipped: needs root"; exit 77; fi
  if ! unshare --net --mount --pid --fork --mount-proc ip link add br0 type bridge 2>/dev/null; then
    say "skipped: namespaces cannot be made here"
    exit 77
  fi
  HA_DIR=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-ha.XXXXXX")
  chmod 755 "$HA_DIR"
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  export HA_DIR
  # In the background and waited for, so that a signal is not kept until it ends; and it ends with this script.
  setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc -- "$0" inner "$@" <&0 &
  CHILD=$!
  local status=0
  wait "$CHILD" || status=$?
  CHILD=""
  exit "$status"
}

# What is ended writes into the directory until it is gone.
clean_up() {
  local tries
  [[ -z $CHILD ]] || kill -9 "$CHILD" 2>/dev/null || true
  for ((tries = 0; tries < 100; ++tries)); do
    rm -rf "$HA_DIR" 2>/dev/null && return
    sleep 0.1
  done
}

# Runs as the first process of its namespace. `ip netns` keeps its names in /run/netns.
inner() {
  mkdir -p /run/netns
  mount -t tmpfs none /run/netns
  ip link set lo up
  local status=0
  "$@" || status=$?
  exit "$status"
}

network_up() {
  ip link add br0 type bridge
  ip address add "$NET.1/24" dev br0
  ip link set br0 up
  for n in 1 2 3; do
    ip netns add "node$n"
    ip link add "to$n" type veth peer name eth0 netns "node$n"
    ip link set "to$n" master br0 up
    inside "$n" ip address add "$(address "$n")/24" dev eth0
    inside "$n" ip link set lo up
    inside "$n" ip link set eth0 up
  done
}

# spawn NODE NAME COMMAND…: in that node, in a session of its own, its output in a file.
spawn() {
  ip netns exec "node$1" setsid runuser -u postgres -- "${@:3}" >>"$HA_DIR/node$1/$2.log" 2>&1 </dev/null &
}

start_etcd() { # NODE new|existing
  local me peers="" n
  me=$(address "$1")
  for n in 1 2 3; do peers+=,node$n=http://$(address "$n"):2380; done
  spawn "$1" etcd etcd --name "node$1" --data-dir "$HA_DIR/node$1/etcd" --initial-cluster "${peers#,}" \
    --initial-cluster-state "$2" --initial-cluster-token mainspring \
    --listen-peer-urls "http://$me:2380" --initial-advertise-peer-urls "http://$me:2380" \
    --listen-client-urls "http://$me:2379" --advertise-client-urls "http://$me:2379" \
    --heartbeat-interval 100 --election-timeout 1000 --logger zap --log-level error
}

write_settings() {
  local me dir=$HA_DIR/node$1
  me=$(address "$1")
  cat >"$dir/patroni.yml" <<YAML
scope: mainspring
name: node$1
restapi: {listen: "$me:8008", connect_address: "$me:8008"}
etcd3: {hosts: ["$(address 1):2379", "$(address 2):2379", "$(address 3):2379"]}
bootstrap:
  dcs:
    ttl: $TTL_S
    loop_wait: $LOOP_S
    retry_timeout: $RETRY_S
    maximum_lag_on_failover: 1048576
    synchronous_mode: true
    primary_start_timeout: 0
    postgresql:
      use_pg_rewind: true
      parameters: {wal_level: replica, hot_standby: "on", max_wal_senders: 10, max_replication_slots: 10,
        wal_log_hints: "on", max_connections: 100, shared_buffers: 64MB, synchronous_commit: "on"}
  initdb: [{encoding: UTF8}, {locale: C.UTF-8}, data-checksums]
  pg_hba: ["host replication repl $NET.0/24 trust", "host all all $NET.0/24 trust", "local all all trust"]
postgresql:
  listen: $me:5432
  connect_address: $me:5432
  data_dir: $dir/data
  bin_dir: $PG_BIN
  pgpass: $dir/pgpass
  authentication: {replication: {username: repl}, superuser: {username: postgres}, rewind: {username: postgres}}
  parameters: {unix_socket_directories: "$dir"}
YAML
}

start_patroni() { spawn "$1" patroni patroni "$HA_DIR/node$1/patroni.yml"; }

ask() { curl -s -m 2 "http://$(address "$1"):8008/$2"; }

leader() {
  local n
  for n in 1 2 3; do
    if [[ $(curl -s -m 1 -o /dev/null -w '%{http_code}' "http://$(address "$n"):8008/primary") == 200 ]]; then
      echo "$n"
      return
    fi
  done
  echo 0
}

members() {
  local n answer
  for n in 1 2 3; do
    answer=$(ask "$n" cluster) || continue
    python3 -c 'import json, sys
for member in json.load(sys.stdin)["members"]:
    print(member["name"].removeprefix("node"), member["role"], member["state"])' <<<"$answer" && return
  done
  return 1
}

# As the primary sees it: what others say of themselves, or remember, may be of the one before it.
settled() {
  local n
  n=$(leader)
  [[ $n != 0 ]] || return 1
  ask "$n" patroni | python3 -c 'import json, sys
standbys = json.load(sys.stdin).get("replication", [])
sys.exit(sum(s["state"] == "streaming" for s in standbys) != 2 or all(s["sync_state"] != "sync" for s in standbys))' \
    2>/dev/null
}

# await TEXT COMMAND…: until it succeeds, for at most 90 s.
await() {
  local until=$((SECONDS + 90))
  while ! "${@:2}"; do
    if ((SECONDS > until)); then
      say "waited in vain for $1; the logs' ends:"
      tail -n 15 "$HA_DIR"/node*/*.log >&2
      exit 1
    fi
    sleep 0.2
  done
}
leads() { [[ $(leader) == "$1" ]]; }

up() {
  network_up
  for n in 1 2 3; do
    mkdir -p "$HA_DIR/node$n"
    chmod 700 "$HA_DIR/node$n"
    write_settings "$n"
    chown -R postgres:postgres "$HA_DIR/node$n"
    start_etcd "$n" new
  done
  start_patroni 1
  await "a first primary" leads 1
  start_patroni 2
  start_patroni 3
  await "three members, one synchronous" settled
}

power_off() {
  local pids
  ip link set "to$1" down
  pids=$(ip netns pids "node$1")
  # shellcheck disable=SC2086
  kill -9 $pids
}
power_on() {
  rm -f "$HA_DIR/node$1/data/postmaster.pid"
  ip link set "to$1" up
  start_etcd "$1" existing
  start_patroni "$1"
}

verb=${1:-help}
shift || true
case $verb in
  within) within "$@" ;;
  inner) inner "$@" ;;
  up) up ;;
  leader) leader ;;
  members) members ;;
  settled) settled ;;
  addresses) addresses ;;
  switch)
    curl -s -m 60 -d "{\"leader\":\"node$1\",\"candidate\":\"node$2\"}" "http://$(address "$1"):8008/switchover"
    echo
    ;;
  kill-postgres) kill -9 "$(head -n 1 "$HA_DIR/node$1/data/postmaster.pid")" ;;
  power-off) power_off "$1" ;;
  power-on) power_on "$1" ;;
  cut) ip link set "to$1" down ;;
  heal) ip link set "to$1" up ;;
  mode)
    curl -s -m 10 -o /dev/null -f -X PATCH -d "{\"$1\":$2}" "http://$(address "$(leader)"):8008/config"
    ;;
  *) sed -n '2,21s/^# \{0,1\}//p' "$0"; exit 64 ;;
esac
