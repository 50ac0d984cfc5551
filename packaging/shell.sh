# What ./run and ./test share: installing Debian packages that are missing, and steps that say what they do.
# Sourced, not run. Needs bash; the caller has `set -euo pipefail`.
# shellcheck shell=bash

# What the build needs, what building the tests needs beyond it, and what running them needs.
# shellcheck disable=SC2034
BUILD_PACKAGES=(g++ cmake ninja-build ccache libboost1.81-dev libssl-dev libsqlite3-dev libfmt-dev
  rapidjson-dev libexpected-dev libcli11-dev libtomlplusplus-dev libhowardhinnant-date-dev
  libarchive-dev libcurl4-openssl-dev libpq-dev zlib1g-dev tzdata)
# shellcheck disable=SC2034
TEST_BUILD_PACKAGES=(doctest-dev librapidcheck-dev python3)
# shellcheck disable=SC2034
TEST_PACKAGES=(imagemagick curl openssl python3-croniter sqlite3 procps slowhttptest iproute2 testssl.sh
  postgresql pgbouncer patroni etcd-server python3-etcd poppler-utils gdb pkg-config chromium
  python3-httpx python3-pytest mypy python3-django python3-fastapi python3-celery python3-yaml systemd
  prometheus nginx-light caddy haproxy)

say() { printf '%s\n' "$*" >&2; }
die() { say "${0##*/}: $*"; exit 1; }
# contains PATTERN…: like `grep -q` on standard input, but reads all of it. `grep -q` closes the pipe at the first match;
# the writer then ends with SIGPIPE, and pipefail makes the pipeline fail.
contains() {
  local text
  text=$(cat)
  grep -q "$@" <<<"$text"
}

# need_node: the dashboard's build needs Node.js 18 or later and npm, Debian's or any other.
need_node() {
  local version
  version=$(node --version 2>/dev/null | grep -oE '[0-9]+' | head -n 1 || true)
  if ((${version:-0} >= 18)) && command -v npm >/dev/null; then return; fi
  need nodejs npm
}

# step TEXT COMMAND…: runs COMMAND with its output in a log file and says TEXT, how long it has been running and the last
# [done/all] that ninja printed: every second on a terminal, every 20 seconds elsewhere. On failure shows the log's end.
step() {
  local text=$1 log start pid seen=0 status=0 position elapsed
  shift
  log=$(mktemp "${TMPDIR:-/tmp}/mainspring.XXXXXX")
  start=$SECONDS
  [[ -t 2 ]] || say "$text …"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  # shellcheck disable=SC2064
  trap "kill $pid 2>/dev/null; exit 130" INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    elapsed=$((SECONDS - start))
    position=$(tail -c 4000 "$log" | grep -oE '^\[[0-9]+/[0-9]+\]' | tail -n 1 || true)
    if [[ -t 2 ]]; then
      printf '\r\033[K%s … %s %d s' "$text" "$position" "$elapsed" >&2
    elif ((elapsed - seen >= 20)); then
      seen=$elapsed
      say "  $text: $position $elapsed s"
    fi
    sleep 0.2
  done
  wait "$pid" || status=$?
  trap - INT TERM
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
  if ((status != 0)); then
    say "$text: failed after $((SECONDS - start)) s. The end of its output:"
    tail -n 60 "$log" >&2
    rm -f "$log"
    return "$status"
  fi
  say "$text: done in $((SECONDS - start)) s"
  rm -f "$log"
}

# missing PACKAGE…: those of them that are not installed, one per line.
missing() {
  local package
  for package in "$@"; do
    # shellcheck disable=SC2016
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      printf '%s\n' "$package"
  done
}

# need PACKAGE…: installs those that are missing; without any, does nothing and needs no network.
need() {
  local packages
  mapfile -t packages < <(missing "$@")
  ((${#packages[@]} == 0)) && return
  command -v apt-get >/dev/null ||
    die "these packages are needed, and there is no apt-get to install them: ${packages[*]}"
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "these packages are needed: ${packages[*]}. Run as root once, or: apt-get install ${packages[*]}"
    as_root=(sudo)
    sudo -v || die "sudo was refused; install by hand: apt-get install ${packages[*]}"
  fi
  step "Reading Debian's package lists" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
  (
    trap unquiet_servers EXIT
    quiet_servers
    step "Installing ${packages[*]}" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -q -y --no-install-recommends "${packages[@]}"
  )
}

# need_later PACKAGE…: starts `need` beside what follows; `needed` waits for it. Where sudo asks for a password, it
# installs them at once.
LATER_PID=
LATER_LOG=
need_later() {
  local packages
  mapfile -t packages < <(missing "$@")
  ((${#packages[@]} == 0)) && return
  if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    need "$@"
    return
  fi
  LATER_LOG=$(mktemp "${TMPDIR:-/tmp}/mainspring.XXXXXX")
  say "Installing beside the build: ${packages[*]}"
  need "$@" >"$LATER_LOG" 2>&1 </dev/null &
  LATER_PID=$!
}
needed() {
  local status=0
  [[ -n $LATER_PID ]] || return 0
  wait "$LATER_PID" || status=$?
  cat "$LATER_LOG" >&2
  rm -f "$LATER_LOG"
  LATER_PID=
  return "$status"
}

# Tests start servers of their own. Packages of servers start one of the system's when they are installed, and
# PostgreSQL's makes a data directory for it: kept from both while `need` installs, and only then. What is there already
# stays as it is. Nor do those that came with it start when the machine does.
QUIET_FILES=()
QUIET_SERVICES=()
quiet_servers() {
  local service
  for service in etcd patroni pgbouncer prometheus nginx caddy haproxy; do
    [[ -e /etc/init.d/$service ]] || QUIET_SERVICES+=("$service")
  done
  put_quiet /usr/sbin/policy-rc.d 755 '#!/bin/sh
exit 101'
  put_quiet /etc/postgresql-common/createcluster.d/mainspring.conf 644 'create_main_cluster = false'
}
unquiet_servers() {
  local service
  for service in ${QUIET_SERVICES[@]+"${QUIET_SERVICES[@]}"}; do
    [[ ! -e /etc/init.d/$service ]] || "${as_root[@]}" update-rc.d "$service" disable >/dev/null 2>&1 || true
  done
  ((${#QUIET_FILES[@]} == 0)) || "${as_root[@]}" rm -f "${QUIET_FILES[@]}"
  QUIET_FILES=()
}

# put_quiet FILE MODE TEXT: makes it, unless there is one.
put_quiet() {
  [[ ! -e $1 ]] || return 0
  "${as_root[@]}" mkdir -p "$(dirname "$1")"
  printf '%s\n' "$3" | "${as_root[@]}" tee "$1" >/dev/null
  "${as_root[@]}" chmod "$2" "$1"
  QUIET_FILES+=("$1")
}

# build PRESET [TARGET…]: configures (once; ninja configures again by itself when a CMake file changes) and builds the
# targets; without any, all.
build() {
  local preset=$1 directory=build/$1
  shift
  [[ -f $directory/build.ninja ]] || step "Configuring $preset" cmake --preset "$preset"
  if [[ $(ninja -C "$directory" -n "$@" 2>/dev/null | tail -n 1) == *"no work to do"* ]]; then return; fi
  step "Building $preset (the first time takes a few minutes)" ninja -C "$directory" "$@"
}

# need_build DIR: ends the script unless DIR has the program and the library.
need_build() {
  [[ -x $1/mainspring && -f $1/libmainspring.a ]] ||
    die "$1: mainspring and libmainspring.a must be there. Build them first: ./run build"
}
