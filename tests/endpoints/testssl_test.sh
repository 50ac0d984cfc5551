#!/bin/bash
# testssl.sh reports nothing above LOW for a server with a certificate of `tls init`. Usage: testssl_test.sh PROGRAM
set -uo pipefail
# shellcheck source=src/cli/script_test.sh
source "$(dirname "$0")/../../src/cli/script_test.sh"
command -v testssl >/dev/null || {
  echo "testssl is not installed: apt-get install testssl.sh"
  exit 1
}
"$mainspring" tls init >/dev/null
"$mainspring" serve --data data --listen 127.0.0.1:0 --tls-cert tls/server.pem --tls-key tls/server.key --json \
  --log-level error >server.json &
server=$!
await test -s server.json
address=$(sed 's/.*"url":"https:..\([^"]*\)".*/\1/' server.json)
testssl --quiet --color 0 --warnings off --nodns none --add-ca tls/ca.pem --jsonfile found.json "$address" >text 2>&1
python3 - found.json <<'PYTHON' || { tail -n 40 text; exit 1; }
import json
import sys

# A private authority publishes no revocations: certificates are short-lived, or the authority is replaced.
EXCUSED = {"cert_revocation"}
SEVERE = {"MEDIUM", "HIGH", "CRITICAL", "FATAL"}

findings = json.load(open(sys.argv[1]))
by_id = {f["id"]: f for f in findings}
severe = [f for f in findings if f["severity"] in SEVERE]
bad = [f for f in severe if f["id"] not in EXCUSED]
for finding in bad:
    print(f'{finding["severity"]}: {finding["id"]}: {finding["finding"]}')
# Checks that it ran at all.
expected = {"TLS1_1": "not offered", "TLS1_3": "offered with final", "PFS": "offered", "secure_client_renego": "not vulnerable",
            "heartbleed": "not vulnerable", "cert_chain_of_trust": "passed."}
missing = [f"{name}: {by_id.get(name, {}).get('finding')!r} is not {text!r}"
           for name, text in expected.items() if not by_id.get(name, {}).get("finding", "").startswith(text)]
missing += [f"nothing is wrong with {name} any more: no excuse is needed" for name in EXCUSED - {f["id"] for f in severe}]
print("\n".join(missing))
print(f"{len(findings)} findings, {len(bad)} above LOW, {len(missing)} that were not as expected")
sys.exit(bool(bad or missing))
PYTHON
