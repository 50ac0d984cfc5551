# shellcheck shell=bash
# A PostgreSQL server and any number of ours, for scripts that source this with $program set: a directory
# $dir and a database $url whose password must not leak. All of it is stopped and removed at the end.
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
dir=$(mktemp -d /tmp/mainspring_served_XXXXXX)
pids=()
as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
finish() {
  for pid in "${pids[@]}" $(cat "$dir/pg/pgbouncer.pid" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
  as "$bin/pg_ctl" -D "$dir/pg/data" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap finish EXIT
fail() { echo "FAILED: $*" >&2; cat "$dir"/*.err "$dir"/*.said >&2 2>/dev/null || true; exit 1; }

mkdir "$dir/pg"
chmod 755 "$dir"
[ "$(id -u)" != 0 ] || chown postgres "$dir/pg"
as "$bin/initdb" -D "$dir/pg/data" -A trust -U postgres -E UTF8 --locale=C >/dev/null
options="-c unix_socket_directories=$dir/pg -c fsync=off"
# shellcheck disable=SC2034
url="postgres://postgres:hunter2@/postgres?host=$dir/pg"
# MAINSPRING_TEST_PG_TLS=on: by TCP, which is refused without TLS.
if [ "${MAINSPRING_TEST_PG_TLS:-off}" = on ]; then
  as openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -keyout "$dir/pg/data/server.key" -out "$dir/pg/data/server.crt" 2>/dev/null
  sed -i 's/^host /hostssl /' "$dir/pg/data/pg_hba.conf"
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  export PGPORT=$port
  options="$options -c listen_addresses=127.0.0.1 -c port=$port -c ssl=on"
  url="postgres://postgres:hunter2@localhost:$port/postgres?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert=$dir/pg/data/server.crt"
else
  options="$options -c listen_addresses="
fi
as "$bin/pg_ctl" -D "$dir/pg/data" -w -l "$dir/pg/log" -o "$options" start >/dev/null
# MAINSPRING_TEST_POOLER=on: through a transaction pooler.
if [ "${MAINSPRING_TEST_POOLER:-off}" = on ]; then
  cat >"$dir/pg/pgbouncer.ini" <<INI
[databases]
* = host=$dir/pg port=5432 user=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = $dir/pg
logfile = $dir/pg/pgbouncer.log
pidfile = $dir/pg/pgbouncer.pid
auth_type = any
pool_mode = transaction
default_pool_size = 30
max_client_conn = 200
ignore_startup_parameters = extra_float_digits,options
INI
  as /usr/sbin/pgbouncer -d -q "$dir/pg/pgbouncer.ini" >/dev/null 2>&1 || fail "the pooler does not start"
  export MAINSPRING_LISTEN_URL=$url MAINSPRING_STORE_PREPARED=off
  url="postgres://postgres:hunter2@/postgres?host=$dir/pg&port=6432"
fi
export XDG_CONFIG_HOME=$dir

# serve NUMBER FLAG…: starts a server and sets $server to its address once it is ready.
serve() {
  local n=$1
  : >"$dir/$n.out"
  shift
  "$program" serve --listen 127.0.0.1:0 "$@" >"$dir/$n.out" 2>"$dir/$n.err" &
  pids+=($!)
  server=$(timeout 20 sed -n 's/.*listens on \(http[^,]*\),.*/\1/p;T;q' \
    < <(timeout 20 tail -n +1 -f --pid=$! "$dir/$n.out" 2>/dev/null)) || true
  [ -n "$server" ] || fail "server $n does not start"
}
