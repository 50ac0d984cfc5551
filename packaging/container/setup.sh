#!/bin/bash
# Makes what compose.yaml needs in ./secrets: a certificate, passwords and tokens. What is there already stays.
# Usage: setup.sh [PROGRAM]. PROGRAM is a mainspring that runs here; else the image is used.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
program=${1:-}
image=${MAINSPRING_IMAGE:-mainspring:0.1.0}
mainspring() {
  if [[ -n $program ]]; then "$program" "$@"; else "${ENGINE:-docker}" run --rm -u "$(id -u)" -v "$PWD/secrets:/secrets" -w /secrets "$image" "$@"; fi
}
umask 077
mkdir -p secrets/server secrets/worker
random() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'; }

if [[ ! -e secrets/tls ]]; then
  (cd secrets && mainspring tls init --dir tls --host server --host localhost)
  cp secrets/tls/server.pem secrets/server/tls_cert
  cp secrets/tls/server.key secrets/server/tls_key
  cp secrets/tls/ca.pem secrets/server/ca_file
  cp secrets/tls/ca.pem secrets/worker/ca_file
fi
[[ -e secrets/postgresql ]] || random >secrets/postgresql
[[ -e secrets/server/store_file ]] ||
  printf 'postgres://mainspring:%s@postgresql:5432/mainspring\n' "$(cat secrets/postgresql)" >secrets/server/store_file
if [[ ! -e secrets/first_token_file ]]; then
  printf 'mst_%s\n' "$(random)" >secrets/first_token_file
  cp secrets/first_token_file secrets/server/first_token_file
  # The workers' token, until you make one with fewer rights: mainspring token create worker --scope work=hello
  cp secrets/first_token_file secrets/worker/token_file
fi
# The user of the image reads them.
if ((EUID == 0)); then chown -R 65532:65532 secrets/server secrets/worker; fi
echo "secrets are in $PWD/secrets. Keep secrets/tls/ca.key elsewhere."
