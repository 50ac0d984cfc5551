#!/bin/bash
# client_test.sh SOURCE WORK WEB MAINSPRING: the TypeScript client is built, checked and tested, and its types are those
# of the server. WORK has its node_modules, WEB those of the dashboard.
set -euo pipefail
source=$1 work=$2 web=$3
export MAINSPRING_BINARY=$4
scratch=$(mktemp -d /tmp/mainspring-typescript-XXXXXX)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null; wait 2>/dev/null; rm -rf "$scratch"' EXIT

cd "$work"
for name in src tests bench docs; do rm -rf "${work:?}/$name"; done
for name in src tests bench package.json tsconfig.json README.md build.mjs reference.mjs test.mjs schemas.txt; do
  [[ ! -e $source/clients/typescript/$name ]] || cp -r "$source/clients/typescript/$name" "$work/"
done
mkdir -p docs
cp -r "$source/docs/guides/typescript.md" "$source/docs/guides/testing.md" "$source/docs/guides/recipes" docs/

node build.mjs
node reference.mjs "$source/docs/reference/typescript_api.md" --check
echo "ok: API reference"
cp "$source/README.md" docs/
MAINSPRING_DOCS=$work/docs node test.mjs
echo "ok: tests"

"$MAINSPRING_BINARY" serve --data "$scratch/store" --listen 127.0.0.1:0 --json >"$scratch/start" 2>"$scratch/log" &
server=$!
for ((i = 0; i < 1200; ++i)); do
  [[ -s $scratch/start ]] && break
  read -rt 0.05 <> <(:) || true
done
url=$(grep -oE 'http://[^"]+' "$scratch/start")
curl -sS --fail "$url/openapi.json" >"$scratch/openapi.json"
mkdir -p "$web/check"
cp "$source/web/types.mjs" "$web/check/"
cd "$web/check"
node types.mjs "$scratch/openapi.json" --optional --only "$(cat "$work/schemas.txt")" --output "$work/src/api/schema.ts" --check
echo "ok: API types"
