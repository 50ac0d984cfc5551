#!/bin/bash
# Builds one commit twice, in two directories, without ccache and (as root) without a network, and compares the
# programs byte by byte. Usage: packaging/reproduce.sh [COMMIT]. Prints the SHA-256. Takes minutes.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh

commit=$(git rev-parse --verify "${1:-HEAD}^{commit}")
work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-reproduce.XXXXXX")
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git show -s --format=%ct "$commit")
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC CCACHE_DISABLE=1

alone=()
if ((EUID == 0)) && unshare -n true 2>/dev/null; then
  alone=(unshare -n)
else
  say "not root: the network is left on while building"
fi

# build_in DIRECTORY: names of different lengths, so that paths that get into the program are seen.
build_in() {
  mkdir -p "$1"
  git archive "$commit" | tar -x -C "$1"
  step "Configuring in $1" cmake -S "$1" --preset release -B "$1/build/release"
  step "Building $(cut -c1-12 <<<"$commit") in $1" "${alone[@]}" ninja -C "$1/build/release" mainspring
}
build_in "$work/a"
build_in "$work/another/directory"
first=$work/a/build/release/mainspring second=$work/another/directory/build/release/mainspring
if ! cmp "$first" "$second"; then
  say "the two programs differ; sections that do:"
  for section in $(readelf -WS "$first" | grep -oE '\] \.[a-z_.A-Z-]+' | cut -c3-); do
    cmp -s <(objcopy -O binary --only-section="$section" "$first" /dev/stdout 2>/dev/null) \
      <(objcopy -O binary --only-section="$section" "$second" /dev/stdout 2>/dev/null) || say "  $section"
  done
  die "not reproducible"
fi
echo "$(sha256sum <"$first" | cut -d' ' -f1)  mainspring of $commit"
