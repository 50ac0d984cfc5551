#!/bin/bash
# A server with remote access, as set up in docs/guides/exposing.md. In a separate network namespace, where
# 192.0.2.1 and 192.0.2.2 belong to this machine only. Usage: exposed_script_test.sh PROGRAM
# shellcheck disable=SC2016
set -uo pipefail
if [[ ${MAINSPRING_IN_NAMESPACE:-} != yes ]]; then
  unshare --net --map-root-user true 2>/dev/null || {
    echo "this system does not allow new network namespaces: skipped"
    exit 77
  }
  MAINSPRING_IN_NAMESPACE=yes exec unshare --net --map-root-user "$0" "$@"
fi
ip link set lo up && ip address add 192.0.2.1/32 dev lo && ip address add 192.0.2.2/32 dev lo || exit 77
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/../../src/cli/script_test.sh"
exec 2>&1

status_of() { curl -s -o /dev/null -w '%{http_code}' --max-time 20 --cacert tls/ca.pem "$@"; }
exposed=(--data data --listen 192.0.2.1:8443 --tls-cert tls/server.pem --tls-key tls/server.key)

expect 64 'mainspring: --listen "192.0.2.1:8443": …no TLS:…no token:…' ms serve --data data --listen 192.0.2.1:8443
expect 0 '…' ms tls init --dir tls --host 192.0.2.1
expect 64 'mainspring: --listen "192.0.2.1:8443": …no token: …token create admin --scope all --data data' ms serve "${exposed[@]}"
old=$("$mainspring" token create old --scope read --expires 1ms --data data)
expect 64 'mainspring: …no token: …' ms serve "${exposed[@]}"
admin=$("$mainspring" token create admin --scope admin --scope read --scope enqueue --data data)

"$mainspring" serve "${exposed[@]}" --json --log-level info --max-connections-per-address 5 --allowed-hosts jobs.example.org >server.json 2>server.log &
server=$!
await test -s server.json
expect 0 '{"url":"https://192.0.2.1:8443"…' cat server.json
at=https://192.0.2.1:8443

# -- access ------------------------------------------------------------------------------------------------
expect 0 200 status_of $at/healthz
expect 0 '{"status":"ok"}' curl -s --cacert tls/ca.pem $at/healthz
expect 0 401 status_of $at/v1/queues
expect 0 401 status_of -H 'Authorization: Bearer' $at/v1/queues
expect 0 401 status_of -H "Authorization: Bearer $old" $at/v1/queues
expect 0 200 status_of -H "Authorization: Bearer $admin" $at/v1/queues
expect 77 000 status_of --cacert /dev/null $at/healthz
expect 0 400 status_of "http://192.0.2.1:8443/healthz"
expect 0 403 status_of -H 'Host: evil.example' -H "Authorization: Bearer $admin" $at/v1/queues
expect 0 200 status_of -H 'Host: jobs.example.org' -H "Authorization: Bearer $admin" $at/v1/queues
MAINSPRING_SERVER=$at MAINSPRING_CA_FILE=tls/ca.pem MAINSPRING_ACCESS_TOKEN=$admin expect 0 'no queues' ms queues list
MAINSPRING_SERVER=$at MAINSPRING_CA_FILE=tls/ca.pem expect 77 'mainspring: …token…' ms queues list
MAINSPRING_SERVER=$at MAINSPRING_ACCESS_TOKEN=$admin expect 69 'mainspring: …certificate…' ms queues list
MAINSPRING_SERVER=http://192.0.2.1:8443 MAINSPRING_ACCESS_TOKEN=$admin expect 64 'mainspring: …' ms queues list
MAINSPRING_SERVER=$at MAINSPRING_CA_FILE=tls/ca.pem MAINSPRING_ACCESS_TOKEN=$admin expect 0 '…1…' ms enqueue mails hello '{}'
MAINSPRING_SERVER=$at MAINSPRING_CA_FILE=tls/ca.pem MAINSPRING_ACCESS_TOKEN=$admin expect 0 '…admin…192.0.2.1…cancel_job  job/1…' \
  bash -c '"$0" jobs cancel 1 >/dev/null && "$0" audit list --limit 1' "$mainspring"

# -- an address with too many failed attempts waits, other addresses do not --------------------------------------
# An address has 10 failures, and one more each 6 s: 60 are too many for a slow machine too.
guess() {
  for _ in {1..60}; do status_of --interface "$1" -H 'Authorization: Bearer wrong' $at/v1/queues && echo; done | sort | uniq -c | awk '{print $2}' | xargs
}
expect 0 '401 429' guess 192.0.2.2
expect 0 200 status_of --interface 192.0.2.2 -H "Authorization: Bearer $admin" $at/v1/queues

# -- connections per address are bounded, other addresses can still connect ---------------------------------------
fds=()
for i in {1..5}; do exec {fd}<>/dev/tcp/192.0.2.1/8443 && fds+=("$fd"); done
refused() { [[ $(status_of --interface 192.0.2.1 $at/healthz) != 200 ]]; }
await refused
expect 0 200 status_of --interface 192.0.2.2 $at/healthz
for fd in "${fds[@]}"; do exec {fd}>&-; done
admitted() { [[ $(status_of $at/healthz) == 200 ]]; }
await admitted

echo "$passed passed, $failed failed"
((failed == 0))
