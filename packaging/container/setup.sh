#!/bin/bash
# Creates the secrets of compose.yaml in ./secrets: a certificate, passwords and tokens. Keeps files that exist.
# Usage: setup.sh [PROGRAM]. PROGRAM is a mainspring that runs on this machine. Without PROGRAM, ENGINE (docker) runs the
# image MAINSPRING_IMAGE.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
here=$PWD
program=${1:-}
image=${MAINSPRING_IMAGE:-mainspring:0.2.0}
mainspring() {
  if [[ -n $program ]]; then "$program" "$@"; else
    "${ENGINE:-docker}" run --rm --network none --user "$(id -u):$(id -g)" -v "$here/secrets:/secrets" -w /secrets "$image" "$@"
  fi
}
umask 077
mkdir -p secrets/server secrets/worker
random() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'; }
# write FILE COMMAND…: FILE gets the output of COMMAND, unless FILE has content.
write() {
  local file=$1
  shift
  [[ ! -s $file ]] || return 0
  "$@" >"$file.new"
  mv "$file.new" "$file"
}

[[ -e secrets/tls ]] || (cd secrets && mainspring tls init --dir tls --host server --host localhost)
write secrets/server/tls_cert cat secrets/tls/server.pem
write secrets/server/tls_key cat secrets/tls/server.key
write secrets/server/ca_file cat secrets/tls/ca.pem
write secrets/worker/ca_file cat secrets/tls/ca.pem
write secrets/postgresql random
write secrets/server/store_file printf 'postgres://mainspring:%s@postgresql:5432/mainspring\n' "$(cat secrets/postgresql)"
write secrets/first_token_file printf 'mst_%s\n' "$(random)"
write secrets/server/first_token_file cat secrets/first_token_file
# Workers get the first token until you create one with fewer rights: mainspring token create worker --scope work=hello
write secrets/worker/token_file cat secrets/first_token_file

# The containers must be able to read their secrets: root gives them to the image's user. Another user cannot do so, and
# the containers run as that user instead.
if ((EUID == 0)); then
  chown -R 65532:65532 secrets/server secrets/worker
elif ! grep -qs '^RUN_AS_UID=' .env; then
  printf 'RUN_AS_UID=%s\nRUN_AS_GID=%s\n' "$(id -u)" "$(id -g)" >>.env
fi
echo "The secrets are in $here/secrets. Keep secrets/tls/ca.key elsewhere."
