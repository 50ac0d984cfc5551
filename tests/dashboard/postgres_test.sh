#!/bin/bash
# postgres_test.sh WORK MAINSPRING: the viewer's actions in the dashboard, with PostgreSQL as the store.
set -euo pipefail
work=$1 program=$2
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/postgres/served_database.sh
source "$here/../postgres/served_database.sh"
printf '%s\n' "$url" >"$dir/url"
chmod 600 "$dir/url"
node=$(command -v node || command -v nodejs)
"$node" "$here/browser_test.mjs" "$work" "$program" --store-file "$dir/url"
