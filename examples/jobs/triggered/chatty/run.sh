#!/bin/sh
# Writes as much as it is asked to, a gigabyte if nothing is said.
yes 'a line like many others, of some length, to fill the log with' | head -c "${1:-1073741824}"
echo "that was all"
