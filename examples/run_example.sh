#!/bin/sh
# Runs an example in a new directory and compares what it prints with what it should.
#   run_example.sh PROGRAM EXPECTED [SERVER]    with SERVER, one is started and its URL handed over
# FLAG in the environment is put before the directory, for example --engine.
set -eu
folder=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" && wait "$server" || true; fi; rm -rf "$folder"' EXIT

target=$folder/data
if [ $# -gt 2 ]; then
  mkfifo "$folder/log"
  "$3" serve --data "$folder/server" --listen 127.0.0.1:0 >"$folder/log" 2>&1 &
  server=$!
  # The server says its address when it is ready.
  exec 4<"$folder/log"
  target=
  while [ -z "$target" ] && IFS= read -r line <&4; do
    printf '%s\n' "$line" >&2
    target=$(printf '%s\n' "$line" | sed -n 's|.*\(http://127\.0\.0\.1:[0-9][0-9]*\).*|\1|p')
  done
  [ -n "$target" ] || exit 1
  cat <&4 >&2 &
fi

"$1" ${FLAG:+"$FLAG"} "$target" >"$folder/printed"
sed 's/since [0-9-]*T[0-9:.]*Z/since …/' "$folder/printed" >"$folder/output"
diff -u "$2" "$folder/output"
