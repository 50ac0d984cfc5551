#!/bin/sh
# Writes the requested number of bytes, by default a gigabyte.
yes 'a line like many others, of some length, to fill the log with' | head -c "${1:-1073741824}"
echo "that was all"
