#!/bin/sh
# Backs up the store of /etc/mainspring/config.toml into a new directory DIRECTORY/TIME, checks the copy, and then
# removes all but the newest KEEP backups. Usage: backup DIRECTORY KEEP
set -eu
directory=$1 keep=$2
mainspring=${MAINSPRING:-/usr/bin/mainspring}
case $keep in
  '' | *[!0-9]* | 0) echo "backup: KEEP \"$keep\": must be a number from 1" >&2; exit 64 ;;
esac
[ -d "$directory" ] || { echo "backup: $directory: no such directory" >&2; exit 66; }

# A backup that was interrupted is not one.
rm -rf "$directory"/*.incomplete
name=$(date -u +%Y-%m-%dT%H%M%SZ)
"$mainspring" store backup "$directory/$name.incomplete"
"$mainspring" verify --data "$directory/$name.incomplete"
mv "$directory/$name.incomplete" "$directory/$name"

# Names sort by time. Other names are not ours to remove.
find "$directory" -mindepth 1 -maxdepth 1 -type d -name '????-??-??T??????Z' | sort -r | tail -n "+$((keep + 1))" |
  while read -r old; do rm -rf "$old"; done
echo "backup: $directory/$name"
