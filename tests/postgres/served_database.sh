# shellcheck shell=bash
# A PostgreSQL server and any number of ours, for scripts that source this with $program set: a directory
# $dir, a database $url whose password nothing may show, and all of it ended and removed at the end.
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
dir=$(mktemp -d /tmp/mainspring_served_XXXXXX)
pids=()
as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
finish() {
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  as "$bin/pg_ctl" -D "$dir/pg/data" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap finish EXIT
fail() { echo "FAILED: $*" >&2; cat "$dir"/*.err "$dir"/*.said >&2 2>/dev/null || true; exit 1; }

mkdir "$dir/pg"
chmod 755 "$dir"
[ "$(id -u)" != 0 ] || chown postgres "$dir/pg"
as "$bin/initdb" -D "$dir/pg/data" -A trust -U postgres >/dev/null
as "$bin/pg_ctl" -D "$dir/pg/data" -w -l "$dir/pg/log" \
  -o "-c listen_addresses= -c unix_socket_directories=$dir/pg -c fsync=off" start >/dev/null
# shellcheck disable=SC2034
url="postgres://postgres:hunter2@/postgres?host=$dir/pg"
export XDG_CONFIG_HOME=$dir

# serve NUMBER FLAG…: starts a server and sets $server to where it listens, once it says so.
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
