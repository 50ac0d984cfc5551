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
here=$(dirname "$(readlink -f "$0")")
bin=$here/../../build/release orders=10000 kills=100 seed=1 workers=3 postgres='' keep=''
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

name=orders mainspring=$(readlink -f "$bin/mainspring") kept='books and logs'
# shellcheck source=examples/killed.sh
source "$here/../killed.sh"
books=$dir/books.sqlite
store=(--data "$dir/jobs")
[[ -z $postgres ]] || store=(--store "$postgres" --store-schema "$(tr A-Z a-z <<<"orders_${dir##*.}")")

# -- the processes: whatever has died is started again -----------------------------------------------
start_server() { start_serving "${store[@]}"; }
keep_alive() {
  local i
  alive server || start_server
  for ((i = 1; i <= workers; ++i)); do
    alive "worker$i" || start "worker$i" "$bin/example_orders" work "$books" "$MAINSPRING_SERVER"
  done
}
# -- what happens to them ---------------------------------------------------------------------------
strike() {
  local victim=worker$((1 + RANDOM % workers))
  case $((RANDOM % 10)) in
    0 | 1 | 2) strike_down server ;;
    3) strike_down shop ;;
    4) stand_still "$victim" ;;
    *) strike_down "$victim" worker ;;
  esac
}

# What an operator does when the alarm goes: looks why, and has the undoing tried again.
parked=0
take_up_parked() {
  local id
  for id in $("$mainspring" workflow list --state parked --all --json 2>/dev/null |
    grep -oE '"id":[0-9]+' | grep -oE '[0-9]+'); do
    "$mainspring" workflow retry "$id" >/dev/null 2>&1 && parked=$((parked + 1))
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
workflows=$("$mainspring" workflow list --name order --all --json | grep -c '"id":' || true)
say "$orders orders in $took s, seed $seed; kill -9: ${struck[worker]} times a worker, ${struck[server]} the server," \
  "${struck[shop]} the shop; ${struck[stopped]} times a worker stood still"
say "parked, and resumed: $parked"
say ""
"$bin/example_orders" check "$books"
((workflows == orders)) || die "WRONG  there are $workflows workflows, not $orders"
"$mainspring" verify >/dev/null || die "WRONG  mainspring verify finds the store damaged"
