#!/usr/bin/env bash
# Prepares the IMDB film reviews: get, check, tokenise, count the words, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/labelled.sh"

usage() {
  cat <<'EOF'
usage: prepare_imdb.sh OUT [options]
  --local DIR     folder aclImdb with {train,test}/{pos,neg}/ID_RATING.txt, or the folder it is in ($IMDB_DIR; without: download)
  --valid N       validation reviews of each class: the last N training reviews in the order of their file names (1000)
  --min-count N   words that are rarer in the training text become <unk> (5)
  --no-checksums  accept another archive than the official one
  --workers N     processes (number of CPU cores)
Reviews: train 23,000 (with --valid 1000), valid 2,000, test 25,000; label 0 negative, 1 positive. <br /> becomes a space; Moses
tokens. Reviews have up to 2,500 words or so: train with --shorten-method truncate --max-positions N.
OUT/bin is for fairseq's task sentence_prediction. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

url=https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz mirror=${IMDB_URL:-}
local_dir=${IMDB_DIR:-} valid=1000 min_count=5

read_raw() {
  local part=$1 folder=$local_dir verified=0 given=()
  if [[ -z $folder ]]; then obtain_members "$url" aclImdb/{train,test}/{pos,neg}; fi
  [[ $verified == 0 ]] || given+=(--exact)
  "$PYTHON" -m corpora.sources.labelled imdb "$folder" "$part" --valid "$valid" ${given[@]+"${given[@]}"}
}

tokenize_reviews() {
  local part=$1 split
  for split in $SPLITS; do
    "$PYTHON" -m corpora.tokens.moses_tokenize --lang en --workers "$workers" --resume "$out/raw/$split.text" "$part/$split.text"
  done
}

parse_arguments "valid min-count workers" "local" "no-checksums" "$@"
need_folder "$local_dir" "aclImdb"
find_python

open_out "imdb valid=$valid min-count=$min_count$(unchecked_note) local=$(source_of "$local_dir")"
step raw "read and check the reviews" read_raw
remove_unpacked # 50,000 files; the archive stays
long_step tok "tokenise" tokenize_reviews
finish_labelled "$out/tok" "$out/tok/train.text" "$min_count"
