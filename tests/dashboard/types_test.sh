#!/bin/bash
# types_test.sh SOURCE WORK MAINSPRING: the dashboard's TypeScript compiles, and its API types match the server.
set -euo pipefail
source=$1 work=$2 mainspring=$3
scratch=$(mktemp -d /tmp/mainspring-types-XXXXXX)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null; wait 2>/dev/null; rm -rf "$scratch"' EXIT

# A copy next to node_modules, which is not in the source tree.
mkdir -p "$work/check"
rm -rf "$work/check/src"
cp -r "$source/web/src" "$source/web/tsconfig.json" "$source/web/types.mjs" "$source/web/package.json" "$work/check/"
cd "$work/check"
"$work/node_modules/.bin/tsc" --noEmit -p tsconfig.json
echo "ok: TypeScript"

"$mainspring" serve --data "$scratch/store" --listen 127.0.0.1:0 --json >"$scratch/start" 2>"$scratch/log" &
server=$!
for ((i = 0; i < 200; ++i)); do
  [[ -s $scratch/start ]] && break
  read -rt 0.05 <> <(:) || true
done
url=$(grep -oE 'http://[^"]+' "$scratch/start")
curl -sS --fail "$url/openapi.json" >"$scratch/openapi.json"
node types.mjs "$scratch/openapi.json" --check
echo "ok: API types"
