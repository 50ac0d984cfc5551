#!/bin/bash
# The document pipeline of the examples over PostgreSQL: each version of each file fires once, though server and workers are killed.
set -eu
program=$1/mainspring
# shellcheck source=tests/postgres/served_database.sh
source "$(dirname "$0")/served_database.sh"
"$(dirname "$0")/../../examples/documents/run.sh" --bin "$1" --files 40 --kills 6 --postgres "$url" ||
  fail "a document is missing, or was handled twice"
