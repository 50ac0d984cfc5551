#!/bin/bash
# Makes everything that a release publishes from a build tree. Usage: packaging/release.sh BUILD OUTPUT.
# OUTPUT gets Debian packages, the image, the Python and npm packages, the OpenAPI file, the SBOM, release notes, a
# provenance statement and SHA256SUMS. The same commit and build tree give the same bytes. Needs root, as image.sh.
set -euo pipefail
build=$(readlink -f "$1")
output=$(readlink -m "$2")
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh
need_build "$build"
version=$(dpkg-parsechangelog -l packaging/debian/changelog -S Version | sed 's/-.*//')
commit=$(git rev-parse HEAD)
if [[ -n $(git status --porcelain) ]]; then
  [[ -n ${MAINSPRING_RELEASE_DIRTY:-} ]] ||
    die "the tree has changes: commit them, so that the provenance statement names what was packed"
  commit+=-dirty  # to try the command out
fi
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l packaging/debian/changelog -S Timestamp)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-release.XXXXXX")
server=
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
made=$work/dist
mkdir "$made"

python_packages() {
  cp -r clients/python "$work/python"
  find "$work/python" -name __pycache__ -prune -exec rm -rf {} +
  (cd "$work/python" && /usr/bin/python3 -c '
import sys
from setuptools import build_meta
made = sys.argv[1]
build_meta.build_sdist(made)  # changes sys.argv
build_meta.build_wheel(made)' "$made")
  /usr/bin/python3 packaging/release.py sdist "$made/mainspring-$version.tar.gz" "$SOURCE_DATE_EPOCH"
}
npm_package() {
  mkdir "$work/npm"
  (cd clients/typescript && cp -r src README.md build.mjs package.json package-lock.json tsconfig.json "$work/npm")
  (cd "$work/npm" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error &&
    node build.mjs && npm pack --ignore-scripts --pack-destination "$made")
}
image() {
  packaging/container/image.sh "$build" "$work/image"
  /usr/bin/python3 packaging/release.py image "$work/image" "$version" "$made/mainspring-$version-image.tar" "$SOURCE_DATE_EPOCH"
}
openapi() {
  "$build/mainspring" serve --data "$work/store" --listen "unix:$work/socket" >"$work/server.log" 2>&1 &
  server=$!
  curl -s --fail --retry 60 --retry-all-errors --retry-delay 1 --unix-socket "$work/socket" \
    http://localhost/openapi.json >"$made/mainspring-$version-openapi.json"
}

step "Debian packages" packaging/deb.sh "$build" "$made"
step "Python packages" python_packages
step "npm package" npm_package
openapi
step "container image" image
packaging/sbom.sh "$build/mainspring" >"$made/mainspring-$version.spdx.json"
/usr/bin/python3 packaging/release.py notes CHANGELOG.md "$version" >"$made/RELEASE_NOTES.md"
/usr/bin/python3 packaging/release.py provenance "$made" "$commit" "$version" >"$work/provenance"
mv "$work/provenance" "$made/provenance.intoto.json"
chmod 644 "$made"/*
(cd "$made" && sha256sum -- * >"$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$made/"
rm -rf "$output"
mkdir -p "$(dirname "$output")"
mv "$made" "$output"
cat "$output/SHA256SUMS"
