#!/usr/bin/env bash
# Prepares the Stanford Sentiment Treebank: get, check, count the words, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/labelled.sh"

usage() {
  cat <<'EOF'
usage: prepare_sst.sh OUT [options]
  --local DIR     folder with the trees, {train,dev,test}.txt, plain or .gz ($SST_DIR; without: download)
  --classes N     5 (as labelled), or 2: negative and positive, neutral texts left out (5)
  --phrases       train on every distinct phrase of the training trees, not on the sentences alone
  --min-count N   words that are rarer in the training sentences become <unk> (2)
  --no-checksums  accept another archive than the official one
  --workers N     processes (number of CPU cores)
Sentences: train 8,544, valid = dev 1,101, test 2,210; with two classes 6,920, 872, 1,821. The dictionary is that of the training
sentences, with --phrases too. OUT/bin is for fairseq's task sentence_prediction; class k is label k.
Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

url=https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip mirror=${SST_URL:-}
local_dir=${SST_DIR:-} classes=5 phrases=0 min_count=2

# The archive has trees/{train,dev,test}.txt.
read_raw() {
  local part=$1 folder=$local_dir verified=0 given=()
  if [[ -z $folder ]]; then
    obtain_members "$url" trees
    folder+=/trees
  fi
  [[ $verified == 0 ]] || given+=(--exact)
  [[ $phrases == 0 ]] || given+=(--phrases)
  "$PYTHON" -m corpora.sources.labelled sst "$folder" "$part" --classes "$classes" ${given[@]+"${given[@]}"}
}

parse_arguments "classes min-count workers" "local" "phrases no-checksums" "$@"
[[ $classes == 5 || $classes == 2 ]] || die "--classes is 5 or 2, got '$classes'"
need_folder "$local_dir" "{train,dev,test}.txt"
find_python

open_out "sst classes=$classes phrases=$phrases min-count=$min_count$(unchecked_note) local=$(source_of "$local_dir")"
step raw "read and check the trees" read_raw
remove_unpacked
sentences=$out/raw/train.text
if [[ $phrases == 1 ]]; then sentences=$out/raw/sentences.text; fi
finish_labelled "$out/raw" "$sentences" "$min_count"
