#!/bin/bash
# Prints which files of src/ a change touches, for mutants_test: first "since REVISION", "recent REVISION" or "unknown",
# then a path on each line.
#   since    what differs from the merge base with the main branch: MAINSPRING_TEST_BASE, else origin/main
#   recent   this is the main branch itself (a fresh clone of it, say): what its last 24 hours of commits changed
#   unknown  there is no git, or no history
cd "$(dirname "$0")/../.." || exit 1
unknown() { echo unknown; exit 0; }
head=$(git rev-parse --verify -q HEAD 2>/dev/null) || unknown
kind=since
if [ -n "${MAINSPRING_TEST_BASE:-}" ]; then
  base=$(git merge-base HEAD "$MAINSPRING_TEST_BASE") || exit 1
else
  base=$(git merge-base HEAD origin/main 2>/dev/null)
  if [ -z "$base" ] || [ "$base" = "$head" ]; then
    kind=recent
    day_before=$(($(git show -s --format=%ct HEAD) - 86400))
    base=$(git rev-list -1 --before="$day_before" HEAD)
    # The history is younger than a day, or cut off.
    [ -n "$base" ] || base=$(git rev-list HEAD | tail -n 1)
    [ "$base" != "$head" ] || unknown
  fi
fi
echo "$kind $base"
# With what is not committed yet.
git diff --name-only "$base" -- src
git ls-files --others --exclude-standard -- src
