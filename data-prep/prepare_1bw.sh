#!/usr/bin/env bash
# Prepares the One Billion Word benchmark: get, check, count the words, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/labelled.sh"

usage() {
  cat <<'EOF'
usage: prepare_1bw.sh OUT [options]
  --local DIR     folder 1-billion-word-language-modeling-benchmark-r13output, or the folder it is in ($ONE_BILLION_DIR; without: download)
  --words N       size of the dictionary: the N most frequent words, fairseq's own symbols not counted (32000; 0: all)
  --no-checksums  accept another archive than the official one
  --workers N     processes (number of CPU cores)
Train: all 99 files of training-monolingual.tokenized.shuffled, 30,301,028 sentences. Of heldout-monolingual.tokenized.shuffled,
valid = news.en.heldout-00001-of-00050, test = news.en.heldout-00000-of-00050. Files are plain or .gz.
It takes up to 12 GB of disk: archive 1.8, text 4.2 (twice while it is being read), data 1.6.
OUT/bin is for fairseq's task language_modeling. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

url=http://www.statmt.org/lm-benchmark/1-billion-word-language-modeling-benchmark-r13output.tar.gz mirror=${ONE_BILLION_URL:-}
release=1-billion-word-language-modeling-benchmark-r13output
training=training-monolingual.tokenized.shuffled heldout=heldout-monolingual.tokenized.shuffled
# Lines and words of the 99 files by `wc`; TensorFlow Datasets (lm1b) has the same number of lines.
official=(30301028 768646526)
local_dir=${ONE_BILLION_DIR:-} words=32000

# find_corpus: set folder to that of the corpus, in --local or downloaded, and verified.
find_corpus() {
  folder=$local_dir verified=0
  if [[ -z $folder ]]; then obtain_members "$url" "$release/$training" "$release/$heldout"; fi
  if [[ -d $folder/$release ]]; then folder=$folder/$release; fi
}

read_raw() {
  local part=$1 folder verified number file files=() given=()
  find_corpus
  # All files must exist before the first one is read, which takes minutes.
  for number in $(seq -f %05.0f 1 99); do files+=("$(find_file "$folder/$training" "news.en-$number-of-00100")"); done
  for number in 00001 00000; do files+=("$(find_file "$folder/$heldout" "news.en.heldout-$number-of-00050")"); done
  for file in "${files[@]}"; do [[ -e $file ]] || die "no file ${file%.gz}, plain or .gz: the corpus is not complete"; done
  if [[ $verified == 1 ]]; then given+=(--exact); fi
  "$PYTHON" -m corpora.text.streams "$part/train.en" "${files[@]:0:99}" --lenient --official "${official[@]}" ${given[@]+"${given[@]}"}
  "$PYTHON" -m corpora.text.streams "$part/valid.en" "${files[99]}" --lenient
  "$PYTHON" -m corpora.text.streams "$part/test.en" "${files[100]}" --lenient
}

parse_arguments "workers" "local words" "no-checksums" "$@"
need_count --words "$words"
need_folder "$local_dir" "$release"
find_python

open_out "1bw words=$words$(unchecked_note) local=$(source_of "$local_dir")"
step raw "read and check the text" read_raw
remove_unpacked
finish_lm en "$words" 1
