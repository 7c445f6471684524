#!/usr/bin/env bash
# Prepares the toy corpus: generate, check, tokenise, joint BPE, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/trees.sh"

usage() {
  cat <<'EOF'
usage: prepare_toy.sh OUT [options]
  --seed N      seed of the grammar (1)
  --train N     training pairs (20000)
  --valid N     validation pairs (500)
  --test N      test pairs (500)
  --bpe N       joint BPE merges (2000)
  --trees en    write the phrases of the English to OUT/bin, from the grammar's trees
  --workers N   processes (number of CPU cores)
German and English, cased. OUT/bin is for fairseq in both directions (-s de -t en, -s en -t de); OUT/raw/SPLIT.en.tree has the
constituency trees of the English. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

generate() {
  local part=$1 split
  "$PYTHON" -m corpora.toy.grammar "$part" --seed "$seed" --train "$train" --valid "$valid" --test "$test"
  for split in $SPLITS; do
    "$PYTHON" -m corpora.text.parallel pair "$part/$split.de" "$part/$split.en"
  done
}

tokenize_and_check_trees() {
  local part=$1 split
  tokenize_all "$out/raw" 0 "$part"
  for split in $SPLITS; do
    "$PYTHON" -m corpora.text.parallel trees "$part/$split.en" "$out/raw/$split.en.tree"
  done
}

src=de tgt=en seed=1 train=20000 valid=500 test=500 bpe=2000
parse_arguments "seed train valid test bpe workers" "trees" "" "$@"
check_trees_options en
find_python

# The grammar is part of the options, so that data of an older grammar are refused.
grammar=$(cat "$PREP_DIR"/corpora/toy/*.py | sha256sum | cut -c 1-12)
open_out "toy seed=$seed train=$train valid=$valid test=$test bpe=$bpe grammar=$grammar"
step raw "generate $train + $valid + $test pairs" generate
step tok "tokenise" tokenize_and_check_trees
long_step bpe "joint BPE, $bpe merges" joint_bpe "$out/tok" "$bpe"
step bin "binarise" binarize "$out/bpe"
if [[ -n $trees ]]; then
  step phrases "binarise the phrases of $trees" binarize_phrases "$out/raw"
fi
say "ready: $out/bin"
