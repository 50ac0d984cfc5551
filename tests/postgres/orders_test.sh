#!/bin/bash
# The order system of the examples over PostgreSQL: it is killed several times, and its books are right.
set -eu
program=$1/mainspring
# shellcheck source=tests/postgres/served_database.sh
source "$(dirname "$0")/served_database.sh"
here=$(dirname "$0")
"$here/../by_scale.sh" "$here/../../examples/orders/run.sh" --bin "$1" --orders scale=60:100:200 --kills scale=2:3:5 --postgres "$url" ||
  fail "the books are wrong"
