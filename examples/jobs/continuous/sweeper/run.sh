#!/bin/bash
# Sweeps a directory again and again. When the host wants it to end it finishes the sweep it is in.
sweeps=0
while [ ! -e "$WEBJOBS_SHUTDOWN_FILE" ]; do
  find "$WEBJOBS_DATA_PATH" -name '*.tmp' -mmin +60 -delete
  sweeps=$((sweeps + 1))
  [ $((sweeps % 20)) -eq 1 ] && echo "sweep $sweeps done"
  sleep 0.05
done
echo "told to end after $sweeps sweeps; bye"
