#!/usr/bin/env bash
# Prepares a corpus for language models: check, count the words, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/labelled.sh"

usage() {
  cat <<'EOF'
usage: prepare_lm.sh OUT --local DIR [options]
  --local DIR     folder with {train,valid,test}.LANG: tokenised text, one sentence a line; or with WikiText's
                  wiki.{train,valid,test}.tokens, or the Penn Treebank's ptb.{train,valid,test}.txt; plain or .gz
  --blank-lines X  refuse, keep (each is one </s>, as published perplexities of WikiText count it) or drop (refuse)
  --no-headings   leave out headings as WikiText has them, "= Title ="
  --lang LANG     ending of the files (en)
  --words N       size of the dictionary: the N most frequent words, fairseq's own symbols not counted (0: all)
  --min-count N   words rarer than this become <unk> (1)
  --workers N     processes (number of CPU cores)
OUT/bin is for fairseq's task language_modeling. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

lang=en words=0 min_count=1 blank_lines=refuse no_headings=0

# find_split SPLIT: print the path of its text, by the names of --help.
find_split() {
  local name
  for name in "$1.$lang" "wiki.$1.tokens" "ptb.$1.txt"; do
    [[ ! -e $(find_file "$local_dir" "$name") ]] || break
    name=$1.$lang
  done
  find_file "$local_dir" "$name"
}

read_raw() {
  local part=$1 split layout=(--words --blank-lines "$blank_lines")
  [[ $no_headings == 0 ]] || layout+=(--no-headings)
  for split in $SPLITS; do
    "$PYTHON" -m corpora.text.streams "$part/$split.$lang" "$(find_split "$split")" "${layout[@]}"
  done
}

# layout_note: print the options of the text's layout that are not the default, for the options of OUT.
layout_note() {
  [[ $blank_lines == refuse ]] || echo -n " blank-lines=$blank_lines"
  [[ $no_headings == 0 ]] || echo -n " no-headings"
}

parse_arguments "min-count workers" "local lang words blank-lines" "no-headings" "$@"
need_count --words "$words"
[[ " refuse keep drop " == *" $blank_lines "* ]] || die "--blank-lines is refuse, keep or drop, got '$blank_lines'"
[[ $lang =~ ^[A-Za-z0-9_-]+$ ]] || die "--lang needs the ending of the files, such as en, got '$lang'"
[[ -n $local_dir ]] || die "no corpus given: --local DIR, the folder with {train,valid,test}.$lang"
need_folder "$local_dir" "{train,valid,test}.$lang"
find_python

texts=()
for split in $SPLITS; do texts+=("$(find_split "$split")"); done
open_out "lm lang=$lang words=$words min-count=$min_count$(layout_note) local=$(source_of "$local_dir")" "${texts[@]}"
step raw "read and check the text" read_raw
finish_lm "$lang" "$words" "$min_count"
