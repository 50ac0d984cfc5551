#!/bin/bash
# A shop whose orders are workflows, with everything that can go wrong; and an audit at the end. See --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
examples/orders/run.sh [--orders N] [--kills N] [--seed N] [--workers N] [--postgres URL]
        [--bin DIR] [--keep]
        Starts a private server and three workers, places 10,000 orders, and meanwhile kills
        server, workers and the shop itself with -9, 100 times, at random, or stops a worker for
        longer than its lease. When every order has ended the books are checked: stock and money
        are all there, each order is completed or as if it had never been.
        Exits with 0 if the books are right.
--postgres URL   the server keeps its jobs in this PostgreSQL database, in a schema of its own
                 (which stays there) instead of a directory
--bin DIR        where mainspring and example_orders have been built [build/release]
--keep           keep the directory with the books and logs; it is kept if the books are wrong
TEXT
}

# -- what is asked for ------------------------------------------------------------------------------
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
bin=$root/build/release orders=10000 kills=100 seed=1 workers=3 postgres='' keep=''
while (($# > 0)); do
  case $1 in
    --orders) orders=$2; shift 2 ;;
    --kills) kills=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    --workers) workers=$2; shift 2 ;;
    --postgres) postgres=$2; shift 2 ;;
    --bin) bin=$2; shift 2 ;;
    --keep) keep=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 64 ;;
  esac
done
readonly limit_s=$((120 + orders / 10)) # all of it; much more than it takes
RANDOM=$seed

dir=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-orders.XXXXXX")
books=$dir/books.sqlite
export MAINSPRING_SERVER=unix:$dir/socket # no port: nobody else can take it while the server is dead
store=(--data "$dir/jobs")
[[ -z $postgres ]] || store=(--store "$postgres" --store-schema "$(tr A-Z a-z <<<"orders_${dir##*.}")")

say() { printf '%s\n' "$*"; }
die() { say "$*" >&3; exit 1; }
exec 3>&2 2>"$dir/run.log" # where bash says of each process that it was killed

# -- the processes: whatever has died is started again -----------------------------------------------
declare -A pid=()
alive() { [[ -n ${pid[$1]:-} ]] && kill -0 "${pid[$1]}" 2>/dev/null; }
start() {
  local name=$1
  shift
  "$@" >>"$dir/$name.log" 2>&1 &
  pid[$name]=$!
}
start_server() {
  local i
  start server "$bin/mainspring" serve "${store[@]}" --listen "$MAINSPRING_SERVER" --log-level warn
  for ((i = 0; i < 600; ++i)); do
    if "$bin/mainspring" workers >/dev/null 2>&1; then return; fi
    alive server || die "the server did not start: $(tail -n 5 "$dir/server.log")"
    sleep 0.05
  done
  die "the server did not answer"
}
keep_alive() {
  local i
  alive server || start_server
  for ((i = 1; i <= workers; ++i)); do
    alive "worker$i" || start "worker$i" "$bin/example_orders" work "$books" "$MAINSPRING_SERVER"
  done
}
clean_up() {
  local status=$? name
  for name in "${!pid[@]}"; do kill -9 "${pid[$name]}" 2>/dev/null || true; done
  wait 2>/dev/null || true
  if ((status == 0)) && [[ -z $keep ]]; then rm -rf "$dir"; else say "books and logs: $dir"; fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# -- what happens to them ---------------------------------------------------------------------------
declare -A struck=([server]=0 [worker]=0 [shop]=0 [stopped]=0)
strike() {
  local victim=worker$((1 + RANDOM % workers))
  case $((RANDOM % 10)) in
    0 | 1 | 2) victim=server; struck[server]=$((struck[server] + 1)) ;;
    3) victim=shop; struck[shop]=$((struck[shop] + 1)) ;;
    4)
      # It stands still until its lease is over and its jobs are others', and then goes on with them.
      struck[stopped]=$((struck[stopped] + 1))
      alive "$victim" || return 0
      kill -STOP "${pid[$victim]}"
      (sleep 3; kill -CONT "${pid[$victim]}" 2>/dev/null || true) &
      return ;;
    *) struck[worker]=$((struck[worker] + 1)) ;;
  esac
  kill -9 "${pid[$victim]}" 2>/dev/null || true
}

# What an operator does when the alarm goes: looks why, and has the undoing tried again.
parked=0
take_up_parked() {
  local id
  for id in $("$bin/mainspring" workflow list --state parked --all --json 2>/dev/null |
    grep -oE '"id":[0-9]+' | grep -oE '[0-9]+'); do
    "$bin/mainspring" workflow retry "$id" >/dev/null 2>&1 && parked=$((parked + 1))
  done || true
}

# -- the run ----------------------------------------------------------------------------------------
"$bin/example_orders" open "$books" "$orders" "$seed"
start_server
SECONDS=0
done_at=0 struck_so_far=0 next_strike=0 shop_status=75
while ((shop_status != 0)); do
  ((SECONDS < limit_s)) || die "not all orders have ended after $limit_s s"
  keep_alive
  if ! alive shop; then
    if [[ -n ${pid[shop]:-} ]]; then
      shop_status=0
      wait "${pid[shop]}" || shop_status=$?
      if ((shop_status == 0)); then break; fi
      take_up_parked
    fi
    start shop "$bin/example_orders" place "$books" "$MAINSPRING_SERVER"
  fi
  # Strikes are spread over the work, not over the time: about three steps of each order happen.
  done_at=$("$bin/example_orders" progress "$books")
  if ((struck_so_far < kills && done_at >= next_strike)); then
    strike
    struck_so_far=$((struck_so_far + 1))
    next_strike=$((struck_so_far * orders * 3 / kills + RANDOM % (orders * 3 / kills + 1)))
  fi
  sleep 0.1
done
took=$SECONDS

# -- the audit --------------------------------------------------------------------------------------
keep_alive
workflows=$("$bin/mainspring" workflow list --name order --all --json | grep -c '"id":' || true)
say "$orders orders in $took s, seed $seed; kill -9: ${struck[worker]} times a worker, ${struck[server]} the server," \
  "${struck[shop]} the shop; ${struck[stopped]} times a worker stood still"
say "parked, and taken up again: $parked"
say ""
"$bin/example_orders" check "$books"
((workflows == orders)) || die "WRONG  there are $workflows workflows, not $orders"
"$bin/mainspring" verify >/dev/null || die "WRONG  mainspring verify finds the store damaged"
