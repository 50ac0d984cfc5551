#!/bin/sh
# Cannot reach what it needs, and says so, again and again.
echo "no database at ${DATABASE_URL:-localhost}" >&2
exit 3
