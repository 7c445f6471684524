#!/usr/bin/env bash
# Prepares Gigaword's headlines (Rush et al. 2015): get, check, WordPieces, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/summaries.sh"

usage() {
  cat <<'EOF'
usage: prepare_gigaword.sh OUT [options]
  --local DIR      folder sumdata of sent-summary (train/{train.article,train.title,valid.article.filter,valid.title.filter}.txt,
                   Giga/{input,task1_ref0}.txt), or org_data of UniLM, or the folder it is in, or with ggw_data.zip; files are plain
                   or .gz ($GIGAWORD_DIR; without: download of ggw_data.zip)
  --vocab FILE     another WordPiece vocabulary than that of BERT's uncased models (with --local: DIR/vocab.txt)
  --train-vocab N  a vocabulary of N entries, learned on the training text
  --workers N      processes (number of CPU cores)
  --no-checksums   accept other files than the official ones
Pairs: train 3,803,957, valid 189,651, test 1,951, as they come: digits are #, rare words <unk>, in the test set UNK.
OUT/bin is for fairseq's task translation, article to summary. OUT/tok/test.summary: the references for ROUGE.
It takes about 4 GB of disk (an estimate). Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

archive=https://huggingface.co/datasets/Harvard/gigaword/resolve/e45e01b2da13842bb3df1b12dc046910147b3d82/data/ggw_data.zip
mirror=${GIGAWORD_URL:-}
local_dir=${GIGAWORD_DIR:-}

read_raw() {
  local part=$1 folder=$local_dir file verified=0 # obtain_members sets the last two
  if [[ -z $local_dir || -e $local_dir/ggw_data.zip ]]; then obtain_members "$archive" org_data; fi
  if [[ $no_checksums == 1 || $verified == 1 ]]; then set -- "$part" --any-pairs; fi
  "$PYTHON" -m corpora.sources.summaries gigaword "$folder" "$@"
}

parse_arguments "train-vocab workers" "local vocab" "no-checksums" "$@"
check_vocab_options
need_folder "$local_dir" "sumdata or org_data"
find_python

open_out "gigaword vocab=$(vocabulary_name) checksums=$((1 - no_checksums)) local=$(source_of "$local_dir")"
step raw "read and check the texts" read_raw
remove_unpacked
finish_summaries 0
