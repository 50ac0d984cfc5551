#!/bin/bash
# Builds build/release and checks it: hardening, that two builds of the commit are equal, and the lists of what is
# linked. See ./test --help. Usage: packaging/check_release.sh [--quick]; --quick leaves out the two builds.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh

need "${BUILD_PACKAGES[@]}" python3 binutils gdb pkg-config
build release
passed=0 failed=0
check() {
  local name=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
    say "$name: good"
  else
    failed=$((failed + 1))
    say "$name: failed"
  fi
}
sbom() {
  packaging/sbom.sh build/release/mainspring >build/release/sbom.spdx.json
  python3 -c 'import json; assert len(json.load(open("build/release/sbom.spdx.json"))["packages"]) > 10'
}
installed() {
  tests/install/prefix_test.sh --limit 14000000 build/release . c++
}
licences() { diff <(packaging/sbom.sh --licences build/release/mainspring) docs/reference/licences.md; }
check "hardening" tests/endpoints/hardening_test.sh build/release/mainspring
check "list of what is linked" sbom
check "docs/reference/licences.md" licences
check "install" installed
[[ ${1:-} == --quick ]] || check "reproducible build" packaging/reproduce.sh
echo "$passed passed, $failed failed"
((failed == 0))
