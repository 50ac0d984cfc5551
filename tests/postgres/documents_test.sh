#!/bin/bash
# The document pipeline of the examples over PostgreSQL: each version of each file fires once, even if server and workers are killed.
set -eu
program=$1/mainspring
# shellcheck source=tests/postgres/served_database.sh
source "$(dirname "$0")/served_database.sh"
here=$(dirname "$0")
"$here/../by_scale.sh" "$here/../../examples/documents/run.sh" --bin "$1" --files scale=15:20:40 --kills scale=2:3:6 --postgres "$url" ||
  fail "a document is missing, or was handled twice"
