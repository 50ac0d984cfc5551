#!/bin/bash
# Must run once in the whole system: writes its name until it is asked to stop.
trap 'echo "handing over"; exit 0' TERM
echo "leading from ${WEBJOBS_DATA_PATH}"
while :; do
  echo "$$" > "${LEADER_FILE:-$WEBJOBS_DATA_PATH/leader}"
  sleep 0.1
done
