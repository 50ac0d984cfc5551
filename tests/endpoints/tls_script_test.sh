#!/bin/bash
# Real servers with TLS and unix sockets. The clients are curl, openssl and our own.
# Usage: tls_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/../../src/cli/script_test.sh"
exec 2>&1
unset MAINSPRING_ACCESS_TOKEN MAINSPRING_CA_FILE

check() {
  if "$@" >out 2>&1; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAILED: $*"
    cat out
  fi
}
# refused TEXT COMMAND…: it fails and prints TEXT.
refused() {
  local text=$1
  shift
  if "$@" >out 2>&1; then
    failed=$((failed + 1))
    echo "FAILED: not refused: $*"
  elif ! grep -qE -- "$text" out; then
    failed=$((failed + 1))
    echo "FAILED: $* does not say \"$text\" but:"
    cat out
  else passed=$((passed + 1)); fi
}

# serve FLAG…: a server with TLS, its address in MAINSPRING_SERVER, its pid in `server`.
serve() {
  rm -f server.json
  "$mainspring" serve --data data --json --log-level info "$@" >server.json 2>>server.log &
  server=$!
  await test -s server.json
  MAINSPRING_SERVER=$(sed 's/.*"url":"\([^"]*\)".*/\1/' server.json)
  export MAINSPRING_SERVER
}
stop_server() {
  kill "$server"
  wait "$server"
  stopped=$?
  server=''
}
tls=(--listen 127.0.0.1:0 --tls-cert tls/server.pem --tls-key tls/server.key)
get() { curl -fsS --max-time 20 "$@" "$MAINSPRING_SERVER/healthz"; }
serial() { openssl s_client -connect "${MAINSPRING_SERVER#https://}" -CAfile tls/ca.pem -verify_return_error </dev/null 2>/dev/null |
  openssl x509 -noout -serial; }
says() { grep -q -- "$1" server.log; }
# A connection that fails has no serial number.
changed_from() {
  local now
  now=$(serial)
  [[ -n $now && $now != "$1" ]]
}

# -- certificates ---------------------------------------------------------------------------------------
check "$mainspring" tls init
check test "$(stat -c %a tls tls/ca.key tls/server.key | tr '\n' ' ')" = '700 600 600 '
check openssl verify -x509_strict -CAfile tls/ca.pem -purpose sslserver -verify_hostname localhost tls/server.pem
expect 65 'mainspring: tls/ca.pem exists: …' ms tls init
expect 0 'tls/worker.pem
tls/worker.key' ms tls issue worker --client
expect 64 'mainspring: --host: must be given…' ms tls issue other
expect 64 'mainspring: name "../x": must be …' ms tls issue ../x --client
expect 66 'mainspring: there is no authority in nowhere (ca.pem): …' ms tls issue x --client --dir nowhere
expect 0 'subject  CN=server
issuer   CN=Mainspring authority
hosts    localhost, 127.0.0.1, ::1
from     …
to       … (in 365d)' ms tls show tls/server.pem
check "$mainspring" tls init --dir foreign
check "$mainspring" tls issue worker --client --dir foreign

# -- refused starts -------------------------------------------------------------------------------------
refused 'tls init --dir tls --host 192.0.2.1' "$mainspring" serve --data data --listen 192.0.2.1:0
refused 'token create admin --scope all' "$mainspring" serve --data data --listen 0.0.0.0:0 "${tls[@]:2}"
refused 'both must be given' "$mainspring" serve --data data --listen 127.0.0.1:0 --tls-cert tls/server.pem
refused 'not the key of the certificate' "$mainspring" serve --data data --listen 127.0.0.1:0 --tls-cert tls/server.pem --tls-key tls/worker.key
chmod 644 tls/server.key
refused 'must have mode 0600' "$mainspring" serve --data data "${tls[@]}"
chmod 600 tls/server.key
mkdir expired
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout expired/server.key -out expired/csr -subj /CN=server 2>/dev/null
openssl x509 -req -in expired/csr -signkey expired/server.key -days -1 -out expired/server.pem 2>/dev/null
chmod 600 expired/server.key
refused 'it expired at' "$mainspring" serve --data data --listen 127.0.0.1:0 --tls-cert expired/server.pem --tls-key expired/server.key

# -- HTTPS ----------------------------------------------------------------------------------------------
serve "${tls[@]}"
check test "${MAINSPRING_SERVER%%:*}" = https
check get --cacert tls/ca.pem
check get --cacert tls/ca.pem --tls-max 1.2
refused 'certificate problem|verify' get --cacert foreign/ca.pem
refused 'certificate problem|verify' get
refused 'alert|protocol|unsupported' openssl s_client -connect "${MAINSPRING_SERVER#https://}" -tls1_1 -cipher 'ALL:@SECLEVEL=0' </dev/null
refused 'alert|handshake|no cipher' openssl s_client -connect "${MAINSPRING_SERVER#https://}" -tls1_2 -cipher 'AES128-SHA:@SECLEVEL=0' </dev/null
check test "$(curl -s "http://${MAINSPRING_SERVER#https://}/healthz")" = 'This server speaks HTTPS here: use https:// and try again.'
expect 69 'mainspring: TLS with …: its certificate is refused: unable to get local issuer certificate
Name the certificate of its authority with --ca-file or MAINSPRING_CA_FILE.' ms queues list
expect 69 'mainspring: TLS with …: its certificate is refused: …' ms queues list --ca-file foreign/ca.pem
expect 64 'mainspring: …use https://…' ms queues list --server "http://${MAINSPRING_SERVER#https://}"
export MAINSPRING_CA_FILE=tls/ca.pem
expect 0 'no queues' ms queues list
check "$mainspring" enqueue q k
check "$mainspring" work --queue q --exec true --drain

# -- a new certificate, and no dropped connection ---------------------------------------------------------
first=$(serial)
# Again if a slow machine takes longer than a claim can wait. A dropped connection is an error of curl.
claim_later() {
  until grep -qs '"kind":"k"' claimed; do
    curl -sS --cacert tls/ca.pem --json '{"worker":"w","queues":["later"],"wait":"60s"}' \
      "$MAINSPRING_SERVER/v1/claim" >claimed || return 1
  done
}
claim_later &
claim=$!
parked() { curl -s --cacert tls/ca.pem "$MAINSPRING_SERVER/metrics" | contains '^mainspring_parked_claims 1'; }
await parked
check "$mainspring" tls issue server --host localhost --host 127.0.0.1
kill -HUP "$server"
await changed_from "$first"
second=$(serial)
check "$mainspring" tls issue server --host localhost --host 127.0.0.1  # and without a signal
await changed_from "$second"
third=$(serial)
cp tls/server.pem good.pem
echo nonsense >tls/server.pem
await says 'the new certificate is invalid'
check test "$(serial)" = "$third"
cp good.pem tls/server.pem
check "$mainspring" enqueue later k
check wait "$claim"
check grep -q '"kind":"k"' claimed
check bash -c 'curl -s --cacert tls/ca.pem "$MAINSPRING_SERVER/metrics" | grep -q "^mainspring_tls_certificate_expiry_seconds 3"'
check "$mainspring" tls issue server --host localhost --host 127.0.0.1 --days 10
await says 'expires soon'
stop_server
check test "$stopped" = 0

# -- certificates of clients ------------------------------------------------------------------------------
serve "${tls[@]}" --tls-client-ca tls/ca.pem
refused 'certificate required|alert|error' get --cacert tls/ca.pem
refused 'unknown ca|alert|error' get --cacert tls/ca.pem --cert foreign/worker.pem --key foreign/worker.key
check get --cacert tls/ca.pem --cert tls/worker.pem --key tls/worker.key
expect 69 'mainspring: …certificate required…' ms queues list
check "$mainspring" queues list --cert-file tls/worker.pem --key-file tls/worker.key
stop_server
serve "${tls[@]}" --tls-client-ca tls/ca.pem --tls-clients optional
check get --cacert tls/ca.pem
refused 'unknown ca|alert|error' get --cacert tls/ca.pem --cert foreign/worker.pem --key foreign/worker.key
stop_server

# -- a socket in the file system --------------------------------------------------------------------------
serve --listen unix:api.sock
check test "$MAINSPRING_SERVER" = unix:api.sock
check test "$(stat -c '%a %F' api.sock)" = '600 socket'
check curl -fsS --unix-socket api.sock http://localhost/healthz
check "$mainspring" enqueue q k
check "$mainspring" work --queue q --exec true --drain
refused 'another program uses it' "$mainspring" serve --data other --listen unix:api.sock
kill -9 "$server"
wait "$server" 2>/dev/null
check test -S api.sock
serve --listen unix:api.sock
check "$mainspring" queues list
stop_server
check test ! -e api.sock

# -- tokens of clients --------------------------------------------------------------------------------------
serve --listen unix:api.sock
echo mst_of_a_file >token
expect 64 'mainspring: --server: url "http://192.0.2.1:80": a token must not go over plain HTTP…' \
  ms queues list --server http://192.0.2.1:80 --token-file token
expect 64 'mainspring: --server: url "http://192.0.2.1:80": a token must not go over plain HTTP…' \
  env MAINSPRING_ACCESS_TOKEN=mst_secret "$mainspring" queues list --server http://192.0.2.1:80
expect 64 'mainspring: --token-file empty: its first line is empty' bash -c ': >empty; "$0" queues list --token-file empty' "$mainspring"
check bash -c '! MAINSPRING_ACCESS_TOKEN=mst_secret "$0" config --explain | grep -q mst_secret' "$mainspring"
check bash -c '! "$0" queues list --token mst_secret' "$mainspring"
# Child programs do not get it.
seen=$("$mainspring" token create seen --scope work --scope read --scope lease)
check "$mainspring" enqueue seen k
printf '#!/bin/sh\nenv >%s/of_exec\n' "$PWD" >tell
chmod +x tell
env MAINSPRING_ACCESS_TOKEN="$seen" "$mainspring" work --queue seen --exec "$PWD/tell" --drain
check bash -c '! grep -q "$0" of_exec && grep -q MAINSPRING_JOB_ID= of_exec' "$seen"
env MAINSPRING_ACCESS_TOKEN="$seen" "$mainspring" lease run l -- env >of_lease 2>&1
check bash -c '! grep -q "$0" of_lease && grep -q MAINSPRING_LEASE_NAME=l of_lease' "$seen"
stop_server
mkdir -p jobs/continuous/nosy
printf '#!/bin/sh\nenv >%s/of_folder.new; mv %s/of_folder.new %s/of_folder; sleep 60\n' "$PWD" "$PWD" "$PWD" >jobs/continuous/nosy/run.sh
chmod +x jobs/continuous/nosy/run.sh
[[ $(id -u) != 0 ]] || export MAINSPRING_JOBS_USER=root
for strict in '' --strict-webjobs; do
  rm -f of_folder
  # shellcheck disable=SC2086
  MAINSPRING_ACCESS_TOKEN=4242424242 serve --listen unix:api.sock --jobs jobs --folder-quiet 100ms $strict
  await test -e of_folder
  check bash -c '! grep -q 4242424242 of_folder && grep -q MAINSPRING_HOST= of_folder'
  stop_server
done

echo "$passed passed, $failed failed"
((failed == 0))
