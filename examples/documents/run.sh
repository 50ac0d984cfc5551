#!/bin/bash
# A document pipeline on a watched folder, whose server and workers are killed, and an audit. See --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
examples/documents/run.sh [--files N] [--kills N] [--seed N] [--workers N] [--postgres URL]
        [--bin DIR] [--keep]
        Starts a private server that watches a folder, and two workers for the pipeline convert,
        thumbnail, index. Copies 300 PDFs into the folder: some in two versions, some broken.
        Meanwhile it kills the server and the workers with -9, 40 times in all and at random, or
        suspends a worker for longer than its lease. At the end it checks that each document has
        one text, one thumbnail and one index entry, and that each broken one is dead with the
        tool's error. Exit code 0: all of this is true.
--postgres URL   store the jobs in this PostgreSQL database instead of a directory, in a schema of
                 its own, which is not deleted
--bin DIR        the directory of mainspring [build/release]
--keep           keep the directory with outputs and logs; it is always kept if something is wrong
TEXT
}

# -- options --------------------------------------------------------------------------------------
here=$(dirname "$(readlink -f "$0")")
bin=$here/../../build/release files=300 kills=40 seed=1 workers=2 postgres='' keep=''
# shellcheck source=examples/options.sh
source "$here/../options.sh"
read_options files kills seed workers postgres bin -- "$@"
whole 1 files workers
whole 0 kills seed
programs "$bin/mainspring"
readonly limit_s=$((240 + files)) # all of it; much more than it takes
RANDOM=$seed

name=documents mainspring=$(readlink -f "$bin/mainspring") kept='outputs and logs'
# shellcheck source=examples/killed.sh
source "$here/../killed.sh"
mkdir "$dir"/{in,staged,out,out/originals,out/texts,out/thumbnails}
export DOCUMENTS_OUT=$dir/out
store=(--data "$dir/jobs")
[[ -z $postgres ]] || store=(--store "$postgres" --store-schema "$(tr A-Z a-z <<<"documents_${dir##*.}")")

# -- the processes: dead ones are started again ------------------------------------------------
start_server() { start_serving "${store[@]}" --watch-root "$dir/in"; }
keep_alive() {
  local i
  alive server || start_server
  for ((i = 1; i <= workers; ++i)); do
    alive "worker$i" || start "worker$i" "$mainspring" pipeline run "$here/pipeline.json" --lease 2s
  done
}
# -- what happens to them ---------------------------------------------------------------------------
strike() {
  local victim=worker$((1 + RANDOM % workers))
  case $((RANDOM % 10)) in
    0 | 1 | 2) strike_down server ;;
    3 | 4) stand_still "$victim" ;;
    *) strike_down "$victim" worker ;;
  esac
}

# One version of a document arrives: moved in whole, or written in place.
drop() {
  local staged=$1 name
  name=$(basename "${staged%.*}")
  if ((RANDOM % 2 == 0)); then
    cp "$staged" "$dir/in/.$name.part" && mv "$dir/in/.$name.part" "$dir/in/$name"
  else
    cp "$staged" "$dir/in/$name"
  fi
}

# -- the run ----------------------------------------------------------------------------------------
"$here/make.py" "$dir/staged" "$files" "$seed"
sqlite3_schema='CREATE TABLE documents(name PRIMARY KEY, modified_at, digest); CREATE TABLE words(word, name);
  CREATE INDEX words_by_name ON words(name); CREATE INDEX names_by_word ON words(word);'
python3 -c 'import sqlite3, sys; books = sqlite3.connect(sys.argv[1]); books.executescript(sys.argv[2])' \
  "$dir/out/index.sqlite" "$sqlite3_schema"
start_server
# shellcheck disable=SC2016
"$mainspring" trigger set documents --folder "$dir/in" --pattern 'letter-*.pdf' --stable 300ms \
  --queue documents.convert --kind convert --max-attempts 100 --args '{"path":{"$ref":"file.path"},
  "name":{"$ref":"file.name"},"size":{"$ref":"file.size"},"modified_at":{"$ref":"file.modified_at"}}' >/dev/null
SECONDS=0
struck_so_far=0 dropped=0
mapfile -t first < <(find "$dir/staged" -name '*.0' | sort)
mapfile -t second < <(find "$dir/staged" -name '*.1' | sort)
all=("${first[@]}" "${second[@]}")
for staged in "${all[@]}"; do
  drop "$staged"
  dropped=$((dropped + 1))
  # Strikes are spread over the documents.
  while ((struck_so_far < kills * dropped / ${#all[@]})); do
    keep_alive
    sleep "0.$((RANDOM % 10))"
    strike
    struck_so_far=$((struck_so_far + 1))
  done
done
while keep_alive; ! "$here/audit.py" "$mainspring" "$dir/staged" "$dir/out" --ready; do
  ((SECONDS < limit_s)) || { "$here/audit.py" "$mainspring" "$dir/staged" "$dir/out" || true; die "not all documents are done after $limit_s s"; }
  sleep 0.2
done

# -- the audit --------------------------------------------------------------------------------------
say "$SECONDS s, seed $seed. Killed with -9: workers ${struck[worker]} times, the server ${struck[server]}. Workers suspended: ${struck[stopped]} times."
"$here/audit.py" "$mainspring" "$dir/staged" "$dir/out"
"$mainspring" pipeline show "$here/pipeline.json"
"$mainspring" verify >/dev/null || die "WRONG  mainspring verify finds the store damaged"
