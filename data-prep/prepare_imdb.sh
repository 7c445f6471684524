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
  --workers N     processes (number of CPU cores)
Reviews: train 23,000 (with --valid 1000), valid 2,000, test 25,000; label 0 negative, 1 positive. <br /> becomes a space; Moses
tokens. Reviews have up to 2,500 words or so: train with --shorten-method truncate --max-positions N.
OUT/bin is for fairseq's task sentence_prediction. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

# 84,125,825 bytes, and the md5 below, in programs that download it (tensorflow.org's tutorials, torchtext/datasets/imdb.py).
url=${IMDB_URL:-https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz}
md5=${IMDB_MD5:-7c2ac02c03563afcf9b574c7e56c153a}
local_dir=${IMDB_DIR:-} valid=1000 min_count=5

read_raw() {
  local part=$1 folder=$local_dir archive given=()
  if [[ -z $folder ]]; then
    folder=$out/download/unpacked
    archive=$(download_folder "$url" "${IMDB_URL:-}")/aclImdb_v1.tar.gz
    download "$url" "$archive" has_md5 "$md5"
    unpack "$archive" "$folder" aclImdb/{train,test}/{pos,neg}
    [[ -n ${IMDB_URL:-} ]] || given+=(--exact)
  fi
  "$PYTHON" -m corpora.sources.labelled imdb "$folder" "$part" --valid "$valid" ${given[@]+"${given[@]}"}
}

tokenize_reviews() {
  local part=$1 split
  for split in $SPLITS; do
    "$PYTHON" -m corpora.tokens.moses_tokenize --lang en --workers "$workers" --resume "$out/raw/$split.text" "$part/$split.text"
  done
}

parse_arguments "valid min-count workers" "local" "" "$@"
need_folder "$local_dir" "aclImdb"
find_python

open_out "imdb valid=$valid min-count=$min_count local=$(source_of "$local_dir")"
step raw "read and check the reviews" read_raw
remove_unpacked # 50,000 files; the archive stays
long_step tok "tokenise" tokenize_reviews
finish_labelled "$out/tok" "$out/tok/train.text" "$min_count"
