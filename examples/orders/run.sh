#!/bin/bash
# A shop whose orders are workflows, with random failures, and an audit. See --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
examples/orders/run.sh [--orders N] [--kills N] [--seed N] [--workers N] [--postgres URL]
        [--bin DIR] [--keep]
        Starts a private server and three workers and places 10,000 orders. Meanwhile it kills the
        server, the workers and the shop with -9, 100 times in all and at random, or suspends a
        worker for longer than its lease. At the end it checks the books: no stock and no money is
        missing, and each order is either completed or undone. Exit code 0: the books are right.
--postgres URL   store the jobs in this PostgreSQL database instead of a directory, in a schema of
                 its own, which is not deleted
--bin DIR        the directory of mainspring and example_orders [build/release]
--keep           keep the directory with the books and logs; it is always kept if something is wrong
TEXT
}

# -- options --------------------------------------------------------------------------------------
here=$(dirname "$(readlink -f "$0")")
bin=$here/../../build/release orders=10000 kills=100 seed=1 workers=3 postgres='' keep=''
# shellcheck source=examples/options.sh
source "$here/../options.sh"
read_options orders kills seed workers postgres bin -- "$@"
whole 1 orders workers
whole 0 kills seed
programs "$bin/mainspring" "$bin/example_orders"
readonly limit_s=$((240 + orders / 10)) # all of it; much more than it takes
RANDOM=$seed

name=orders mainspring=$(readlink -f "$bin/mainspring") kept='books and logs'
# shellcheck source=examples/killed.sh
source "$here/../killed.sh"
books=$dir/books.sqlite
store=(--data "$dir/jobs")
[[ -z $postgres ]] || store=(--store "$postgres" --store-schema "$(tr A-Z a-z <<<"orders_${dir##*.}")")

# -- the processes: dead ones are restarted ----------------------------------------------------------
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

# What an operator does after an alarm: reads the reason, and retries the undo.
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
  # Strikes are spread over the work, not over the time: each order has about three steps.
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
say "$orders orders in $took s, seed $seed. Killed with -9: workers ${struck[worker]} times, the server ${struck[server]}," \
  "the shop ${struck[shop]}. Workers suspended: ${struck[stopped]} times."
say "Workflows parked and resumed: $parked"
say ""
"$bin/example_orders" check "$books"
((workflows == orders)) || die "WRONG  there are $workflows workflows, not $orders"
"$mainspring" verify >/dev/null || die "WRONG  mainspring verify finds the store damaged"
