#!/bin/bash
# Installs each file of a release in a fresh Debian and runs a first job. Usage: packaging/release_check.sh DIST.
# Needs root, mmdebstrap and Debian's mirror. The last line is "N passed, N failed".
set -euo pipefail
dist=$(readlink -f "$1")
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=packaging/shell.sh
source packaging/shell.sh
((EUID == 0)) || die "must be root"
work=$(mktemp -d "${TMPDIR:-/tmp}/mainspring-dist.XXXXXX")
root=$work/root
server=
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait 2>/dev/null || true
  umount "$root/proc" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap finish EXIT
passed=0 failed=0
check() {
  local name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    passed=$((passed + 1)) && say "$name: good"
  else
    failed=$((failed + 1)) && tail -n 20 "$work/log" >&2 && say "$name: failed"
  fi
}
# inside COMMAND: in the fresh Debian, without a network but with its loopback device, which the server uses.
inside() { nsenter --net="/proc/$server/ns/net" chroot "$root" bash -euc "$1"; }

sums() { (cd "$dist" && sha256sum -c --quiet SHA256SUMS); }
statement() {
  python3 - "$dist" <<'PY'
import hashlib, json, pathlib, sys
dist = pathlib.Path(sys.argv[1])
statement = json.loads((dist / "provenance.intoto.json").read_text())
for one in statement["subject"]:
    assert hashlib.sha256((dist / one["name"]).read_bytes()).hexdigest() == one["digest"]["sha256"], one
names = {one["name"] for one in statement["subject"]}
files = {one.name for one in dist.iterdir()} - {"provenance.intoto.json", "SHA256SUMS"}
assert names == files, names ^ files
json.loads(next(dist.glob("*-openapi.json")).read_text())["paths"]["/v1/jobs"]
assert len(json.loads(next(dist.glob("*.spdx.json")).read_text())["packages"]) > 10
PY
}
image_tar() {
  python3 - "$dist"/*-image.tar <<'PY'
import hashlib, json, sys, tarfile
with tarfile.open(sys.argv[1]) as tar:
    read = lambda name: tar.extractfile(name).read()
    [docker] = json.loads(read("manifest.json"))
    for name in [docker["Config"], *docker["Layers"]]:
        assert hashlib.sha256(read(name)).hexdigest() == name.rpartition("/")[2], name
    [entry] = json.loads(read("index.json"))["manifests"]
    read("blobs/" + entry["digest"].replace(":", "/"))
    assert json.loads(read(docker["Config"]))["config"]["User"] == "65532:65532"
PY
}
# shellcheck disable=SC2016
debian() {
  mmdebstrap --variant=minbase --mode=root --format=directory --dpkgopt=force-unsafe-io \
    --aptopt='Acquire::Check-Valid-Until "false"' --include=ca-certificates,curl,python3-venv,python3-setuptools,python3-wheel,nodejs,npm \
    --customize-hook="mkdir \"\$1/dist\" && cp \"$dist\"/* \"\$1/dist\"" \
    --customize-hook='chroot "$1" sh -c "apt-get install -y --no-install-recommends /dist/mainspring_*.deb"' \
    bookworm "$root"
  [[ -x $root/usr/bin/mainspring ]]
  mount -t proc proc "$root/proc"
}
serves() {
  unshare --net bash -c "ip link set lo up; exec chroot '$root' mainspring serve --data /var/tmp/store --listen 127.0.0.1:8080" >"$work/server.log" 2>&1 &
  server=$!
  eventually inside 'curl -sf http://127.0.0.1:8080/readyz' || { cat "$work/server.log"; return 1; }
  inside 'curl -sf http://127.0.0.1:8080/ui/ | grep -q "<title>Mainspring"'
  inside 'mainspring enqueue hello greet && mainspring work --queue hello --exec cat --drain'
}
eventually() {
  for ((attempt = 0; attempt < 600; ++attempt)); do
    ! "$@" || return 0
    kill -0 "$server" || return 1
    read -rt 0.1 <> <(:) || true
  done
  return 1
}
# python FILE OPTION…: the file is installed alone, and runs a first job.
python() {
  inside "rm -rf /tmp/try && python3 -m venv ${2:-} /tmp/try && /tmp/try/bin/pip install --no-index ${3:-} /dist/$1 && cd /tmp && cat >greet.py <<'PY'
from mainspring import Mainspring
ms = Mainspring()
@ms.job(queue='greetings')
def greet(ctx, name): return 'hello ' + name
if __name__ == '__main__':
    import threading
    worker = ms.worker(slots=1)
    worker.start()
    assert greet.enqueue('you').result('30s') == 'hello you'
    worker.request_stop()
    worker.stop()
PY
/tmp/try/bin/python greet.py"
}
wheel() { python 'mainspring-*.whl'; }
# pip has no network here, so it takes Debian's setuptools. With a network `pip install` needs no option.
sdist() { python "$(basename "$(ls "$dist"/mainspring-*.tar.gz)")" --system-site-packages --no-build-isolation; }
npm() {
  inside "mkdir -p /tmp/npm && cd /tmp/npm && echo '{\"type\":\"module\"}' >package.json && npm install --offline --no-audit --no-fund /dist/*.tgz && cat >first.mjs <<'JS'
import { defineJob, Mainspring } from '@mainspring-jobs/client';
const greet = defineJob('greet', { queue: 'npm' });
const ms = new Mainspring();
const worker = ms.worker().on(greet, async ({ args }) => 'hello ' + args.name);
const job = await ms.enqueue(greet, { name: 'you' });
if ((await job.result({ timeout: '30s' })) !== 'hello you') process.exit(1);
await worker.stop();
ms.close();
JS
node first.mjs"
}
check "SHA256SUMS" sums
check "provenance, OpenAPI file and SBOM" statement
check "the image's tar" image_tar
check "the Debian package installs in a fresh Debian" debian
check "its server shows the dashboard and runs a first job" serves
check "the wheel installs and runs a first job" wheel
check "the source distribution installs and runs a first job" sdist
check "the npm package installs and runs a first job" npm
echo "$passed passed, $failed failed"
((failed == 0))
