#!/bin/sh
# Fails repeatedly because it cannot reach a service.
echo "no database at ${DATABASE_URL:-localhost}" >&2
exit 3
