#!/usr/bin/env bash
# Prepares CNN/DailyMail, not anonymised (See et al. 2017): get, check, WordPieces, binarise. Run again, it continues or does
# nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/summaries.sh"

usage() {
  cat <<'EOF'
usage: prepare_cnndm.sh OUT [options]
  --local DIR        folder with {cnn,dailymail}_stories.tgz or {cnn,dailymail}/stories, and all_{train,val,test}.txt; or with
                     {train,val,test}.{source,target}, one text a line ($CNNDM_DIR; without: download)
  --vocab FILE       another WordPiece vocabulary than that of BERT's uncased models (with --local: DIR/vocab.txt)
  --train-vocab N    a vocabulary of N entries, learned on the training text
  --summary-words N  cut summaries for training and validation to N words, as MASS does (120; 0: do not)
  --workers N        processes (number of CPU cores)
  --no-checksums     accept other files than the official ones
Pairs: train 287,113 (287,227 without the 114 stories that have no text), valid 13,368, test 11,490. Texts are not cut: train
with --truncate-source --max-source-positions 512. OUT/bin is for fairseq's task translation, article to summary.
OUT/raw/test.article.sentences: what LEAD-3 is taken from. OUT/tok/test.summary: the references for ROUGE.
It takes about 6 GB of disk (an estimate). Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

stories=https://huggingface.co/datasets/cnn_dailymail/resolve/11343c3752184397d56efc19a8a7cceb68089318/data
lists=https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists
mirror=${CNNDM_URL:-}
local_dir=${CNNDM_DIR:-} summary_words=120

read_raw() {
  local part=$1 split name folders=() file=$local_dir/train.source folder verified # of obtain and obtain_members
  if [[ -z $local_dir || ! -e $file ]]; then
    for name in cnn dailymail; do
      obtain_members "$stories/${name}_stories.tgz" "$name/stories"
      folders+=("$folder")
    done
    for split in train val test; do obtain "$lists/all_$split.txt"; done
    set -- "$part" --stories "${folders[@]}"
  fi
  if [[ $no_checksums == 1 ]]; then set -- "$@" --any-pairs; fi
  "$PYTHON" -m corpora.sources.summaries cnndm "$(dirname "$file")" "$@"
}

parse_arguments "train-vocab workers" "local vocab summary-words" "no-checksums" "$@"
need_count --summary-words "$summary_words"
check_vocab_options
need_folder "$local_dir" "the stories and the lists of addresses"
find_python

options="cnndm vocab=$(vocabulary_name) summary-words=$summary_words checksums=$((1 - no_checksums))"
open_out "$options local=$(source_of "$local_dir")"
step raw "read and check the stories" read_raw
remove_unpacked # 312,085 files; the archives stay
finish_summaries "$summary_words"
