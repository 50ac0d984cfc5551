#!/bin/bash
# One process per job: the job is JSON on standard input, the last line of output is the result.
read -r job
echo "working on job $MAINSPRING_JOB_ID" >&2
echo "$job" | sed 's/.*"path":"\([^"]*\)".*/{"thumbnail":"small-\1"}/'
