#!/usr/bin/env bash
# Prepares a corpus for language models: check, count the words, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/labelled.sh"

usage() {
  cat <<'EOF'
usage: prepare_lm.sh OUT --local DIR [options]
  --local DIR     folder with {train,valid,test}.LANG, plain or .gz: tokenised text, one sentence a line
  --lang LANG     ending of the files (en)
  --words N       size of the dictionary: the N most frequent words, fairseq's own symbols not counted (0: all)
  --min-count N   words rarer than this become <unk> (1)
  --workers N     processes (number of CPU cores)
OUT/bin is for fairseq's task language_modeling. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

lang=en words=0 min_count=1

read_raw() {
  local part=$1 split
  for split in $SPLITS; do
    "$PYTHON" -m corpora.text.streams "$part/$split.$lang" "$(find_file "$local_dir" "$split.$lang")"
  done
}

parse_arguments "min-count workers" "local lang words" "" "$@"
need_count --words "$words"
[[ $lang =~ ^[A-Za-z0-9_-]+$ ]] || die "--lang needs the ending of the files, such as en, got '$lang'"
[[ -n $local_dir ]] || die "no corpus given: --local DIR, the folder with {train,valid,test}.$lang"
need_folder "$local_dir" "{train,valid,test}.$lang"
find_python

texts=()
for split in $SPLITS; do texts+=("$(find_file "$local_dir" "$split.$lang")"); done
open_out "lm lang=$lang words=$words min-count=$min_count local=$(source_of "$local_dir")" "${texts[@]}"
step raw "read and check the text" read_raw
finish_lm "$lang" "$words" "$min_count"
