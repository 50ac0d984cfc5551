#!/bin/bash
# The order system of the examples over PostgreSQL: killed now and then, and its books are right.
set -eu
program=$1/mainspring
# shellcheck source=tests/postgres/served_database.sh
source "$(dirname "$0")/served_database.sh"
"$(dirname "$0")/../../examples/orders/run.sh" --bin "$1" --orders 200 --kills 5 --postgres "$url" ||
  fail "the books are wrong"
