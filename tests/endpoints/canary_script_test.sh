#!/bin/bash
# Secrets do not leak: they appear in no log, metric, error, answer, command line, environment of a child, or core
# file. Usage: canary_script_test.sh PROGRAM
#
# Each spot puts its own text (canary N) into one place and writes all effects below $out. At the end all of $out is
# searched for all canaries. For a new endpoint add a spot: a line `spot`, and commands that use $canary.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=src/cli/script_test.sh
source "$here/../../src/cli/script_test.sh"
out=$work/out
mkdir -p "$out" jobs/triggered/report jobs/triggered/envs

spots=()
# spot WHAT: names the next spot and creates its canary.
spot() {
  spots+=("$1")
  canary="cnry${#spots[@]}q$(openssl rand -hex 8)z"
  printf '%s\n' "$canary" >>"$work/canaries"
}
# http PATH [CURL FLAG…]: records the answer with its header.
http() {
  local path=$1
  shift
  curl -s -i -m 60 "$@" "$base$path" >>"$out/answers.txt" 2>>"$out/curl.txt" || true
}
# cli ARGUMENT…: records the output of a command.
cli() { timeout 60 "$mainspring" "$@" >>"$out/commands.txt" 2>&1 </dev/null || true; }
# wait_until COMMAND…: for up to 60 s.
wait_until() {
  for ((i = 0; i < 600; i++)); do
    if "$@"; then return 0; fi
    read -rt 0.1 <> <(:) || true
  done
  return 1
}
check() {
  if "${@:2}"; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAILED: $1"
  fi
}

# -- before the server: its environment, its configuration, its folders

spot "environment of the server, not on the allow-list"
export DATABASE_PASSWORD=$canary
spot "MAINSPRING_ACCESS_TOKEN in the server's environment"
export MAINSPRING_ACCESS_TOKEN=$canary
spot "configuration: a comment of a file that is damaged"
printf '# %s\nlog_level = \n' "$canary" >damaged.toml
cli serve --config damaged.toml
spot "password of the server's URL, in the configuration"
printf 'server = "http://me:%s@127.0.0.1:9"\n' "$canary" >client.toml
cli queue list --config client.toml
cli config --explain --config client.toml
spot "password of the server's URL, as a flag (on that command line only)"
cli queue list --server "http://me:$canary@127.0.0.1:9"
cli work --queue q --server "http://$canary@127.0.0.1:9" --exec a=true
cli config --explain --server "http://me:$canary@127.0.0.1:9"
spot "a private key that is damaged"
printf -- '-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n' "$canary" >key.pem
chmod 600 key.pem
cli serve --data tls-data --listen 127.0.0.1:0 --tls-cert key.pem --tls-key key.pem
spot "environment of a job folder's settings.job"
printf '{"environment": {"FOLDER_SECRET": "%s"}}' "$canary" >jobs/triggered/report/settings.job
# shellcheck disable=SC2016
printf '#!/bin/bash\n[[ -n $FOLDER_SECRET ]] && echo "the job has it"\n' >jobs/triggered/report/run.sh
# The environment and command line of a child, without the values meant for it.
printf '#!/bin/bash\ncat /proc/self/environ /proc/self/cmdline | tr "\\0" "\\n" >%q\n' "$out/child.txt" >jobs/triggered/envs/run.sh

[[ $(id -u) != 0 ]] || export MAINSPRING_JOBS_USER=root
"$mainspring" serve --data data --listen 127.0.0.1:0 --jobs jobs --webjobs-api --log-level debug --outgoing-allow 127.0.0.0/8 --json \
  >started.json 2>"$out/server.log" &
server=$!
wait_until grep -q url started.json || { cat "$out/server.log"; exit 1; }
base=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' started.json)
unset MAINSPRING_ACCESS_TOKEN DATABASE_PASSWORD

# -- requests

spot "Authorization: Bearer, wrong"
http /v1/queues -H "Authorization: Bearer $canary"
spot "Authorization: Bearer, wrong, of the form of a token"
http /v1/queues -H "Authorization: Bearer mst_${canary}AAAAAAAAAAAAAAAAAAAA"
spot "Authorization: Basic, wrong"
http /v1/queues -u "me:$canary"
spot "Authorization of a scheme that there is not"
http /v1/queues -H "Authorization: Digest username=\"$canary\""
spot "Proxy-Authorization"
http /v1/queues -H "Proxy-Authorization: Basic $canary"
spot "a cookie"
http /v1/queues -b "session=$canary"
spot "a header of another system"
http /v1/queues -H "X-Api-Key: $canary"
spot "password in an absolute request target"
http /v1/queues --request-target "http://me:$canary@127.0.0.1/v1/queues"
spot "idempotency key, except in the answer to its sender"
http /v1/jobs --json '{"kind":"k"}' -H "Idempotency-Key: $canary"
curl -s --json '{"kind":"other"}' -H "Idempotency-Key: $canary" "$base/v1/jobs" >/dev/null
spot "args of a job"
curl -s --json "{\"kind\":\"k\",\"args\":{\"card\":\"$canary\"}}" "$base/v1/jobs" >/dev/null
cli job list --server "$base"
http /v1/queues
spot "args of a job that is refused"
http /v1/jobs --json "{\"kind\":\"k\",\"priority\":77,\"args\":{\"card\":\"$canary\"}}"
spot "value of a lease"
curl -s --json "{\"holder\":\"h\",\"ttl\":\"30s\",\"value\":{\"key\":\"$canary\"}}" "$base/v1/leases/l/acquire" >/dev/null
spot "args of a schedule's jobs"
curl -s -X PUT --json "{\"cron\":\"0 0 1 1 *\",\"job\":{\"kind\":\"k\",\"args\":{\"key\":\"$canary\"}}}" "$base/v1/schedules/s" >/dev/null
spot "password of a hook that is refused"
http /api/hooks --json "{\"url\":\"http://me:$canary@169.254.169.254/\",\"event\":\"TriggeredJobFinished\"}"
spot "password of a hook that fails"
http /api/hooks --json "{\"url\":\"http://me:$canary@127.0.0.1:9/\",\"event\":\"TriggeredJobFinished\"}"
http /api/hooks
spot "arguments of a run, in the log of the server"
http /v1/host/jobs/triggered/envs/run --json '{}'
curl -s --json "{\"arguments\":\"--password $canary\"}" "$base/v1/host/jobs/triggered/report/run" >/dev/null
spot "a token, made in the directory of a server that does not run"
text=$("$mainspring" token create deploy --data other --scope 'read' 2>/dev/null | grep -oE 'mst_[A-Za-z0-9_-]{43}' | head -n 1)
sed -i '$d' canaries
printf '%s\n' "${text:-none}" >>canaries
check "token create prints a token" test -n "$text"
cli token list --data other
cli audit list --data other
http /v1/queues -H "Authorization: Bearer $text"
http "/v1/queues?limit=x" -u ":$text"
spot "the token of a file, right, towards a server that needs it"
sed -i '$d' canaries
printf '%s\n' "$text" >>canaries
printf '%s\n' "$text" >token
chmod 600 token
check "the database has no text of a token" bash -c "! grep -rqaF -- '$text' other"
"$mainspring" serve --data other --listen unix:other.sock --require-token --log-level debug --json \
  >other.json 2>"$out/other.log" &
other=$!
wait_until grep -q url other.json || cat "$out/other.log"
as_deploy() { cli "$@" --server unix:other.sock --token-file token; }
as_deploy queue list
as_deploy jobs list --limit x
as_deploy token list
as_deploy audit list
as_deploy enqueue q k '{}'
curl -s -i -m 20 --unix-socket other.sock http://localhost/v1/queues -H "Authorization: Bearer $text" >>"$out/answers.txt"
curl -s -i -m 20 --unix-socket other.sock http://localhost/v1/tokens -u "me:$text" >>"$out/answers.txt"
curl -s -i -m 20 --unix-socket other.sock http://localhost/metrics -H "Authorization: Bearer $text" >>"$out/answers.txt"
check "the right token was let in" grep -q 'HTTP/1.1 200' "$out/answers.txt"
spot "the token of a worker's environment, in its jobs' environment"
MAINSPRING_TOKEN=$canary cli work --queue q --server unix:other.sock --once --exec "k=env"
MAINSPRING_TOKEN=$canary cli config --explain
spot "the token of a file that is no token"
printf 'a b %s\n' "$canary" >bad_token
chmod 600 bad_token
cli queue list --server unix:other.sock --token-file bad_token
spot "the token of a file that others can read"
printf 'mst_%s\n' "$canary" >open_token
chmod 644 open_token
cli queue list --server unix:other.sock --token-file open_token
kill "$other"
wait "$other" 2>/dev/null || true

# -- files after the end

wait_until test -s "$out/child.txt" || echo "the job envs did not run"
http /metrics
http /healthz
http /v1/workers
for child in $(pgrep -P "$server" || true); do
  tr '\0' '\n' <"/proc/$child/cmdline" >>"$out/cmdlines.txt" 2>/dev/null || true
done
tr '\0' '\n' <"/proc/$server/cmdline" >>"$out/cmdlines.txt"
check "core files have a limit of 0" grep -qE 'Max core file size +0 ' "/proc/$server/limits"
kill -ABRT "$server"
wait "$server" 2>/dev/null || true
server=''
find "$work" -maxdepth 2 -name 'core*' -type f -exec cp {} "$out/" \; 2>/dev/null || true

# -- the search, with a check that it can find canaries

check "the evidence has the requests' answers" grep -q 'HTTP/1.1 ' "$out/answers.txt"
check "the evidence has a log" grep -q 'INFO' "$out/server.log"
check "the evidence has a child's environment" grep -q '^PATH=' "$out/child.txt"
check "there are at least 20 spots" test "${#spots[@]}" -ge 20
number=0
while read -r canary; do
  number=$((number + 1))
  encoded=$(printf 'me:%s' "$canary" | base64 -w0)
  where=$(grep -rlaF -e "$canary" -e "${encoded:4:20}" "$out" || true)
  check "${spots[number - 1]}: $(printf "%s " $where) has it" test -z "$where"
done <canaries
printf 'planted\n' >"$out/planted.txt"
check "canary of the canaries: what is there is found" test -n "$(grep -rlaF planted "$out")"

# -- memory of a server that is not root

if ((EUID == 0)) && id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null; then
  chmod 711 "$work"
  mkdir -m 700 nobody
  chown nobody nobody
  as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups env -C "$work/nobody")
  for allow in "" --allow-core; do
    rm -f started.json # what the last server said must not be taken for this one's word
    # shellcheck disable=SC2086
    "${as_nobody[@]}" "$mainspring" serve --data "data$allow" --listen 127.0.0.1:0 --json $allow >started.json 2>nobody.log &
    server=$!
    wait_until grep -q url started.json || cat nobody.log
    peek() { "${as_nobody[@]}" cat "/proc/$server/environ" >/dev/null 2>&1; }
    if [[ -z $allow ]]; then
      check "others of its user cannot read the server's environment" bash -c "! $(declare -p as_nobody); ! \"\${as_nobody[@]}\" cat /proc/$server/environ >/dev/null 2>&1"
    else
      check "--allow-core lets them" peek
    fi
    kill "$server"
    wait "$server" || true
    server=''
  done
fi

echo "${#spots[@]} spots, $passed checks passed, $failed failed"
((failed == 0))
