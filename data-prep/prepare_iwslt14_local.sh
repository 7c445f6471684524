#!/usr/bin/env bash
# Prepares IWSLT14 German-English from a local copy, tokenised and lower-cased already: check, joint BPE, binarise.
# Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOF'
usage: prepare_iwslt14_local.sh OUT --local DIR [options]
  --local DIR   folder with {train,valid,test}.{de,en}, plain or .gz: Moses tokens, lower-cased, entities unescaped
  --bpe N       joint BPE merges (10000)
  --workers N   processes (number of CPU cores)
OUT/tok is the text as it is; OUT/raw is that text detokenised by sacremoses, since no other raw text is at hand.
Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

# In the test set two talks run a sentence apart for some dozens of lines (around 1,000 and 1,800). The lengths in such a
# block still correlate by 0.38, and no more is asked of this split.
copy_tokenised() {
  local part=$1 split check
  for split in $SPLITS; do
    check=()
    [[ $split == test ]] && check=(--min-correlation 0.3)
    "$PYTHON" "$PREP_DIR/parallel.py" pair "$(find_file "$local_dir" "$split.de")" "$(find_file "$local_dir" "$split.en")" \
      ${check[@]+"${check[@]}"} --write "$part/$split.de" "$part/$split.en"
  done
}

detokenize() {
  local part=$1 split lang
  for split in $SPLITS; do
    for lang in de en; do
      "$PYTHON" -c '
import sys
from sacremoses import MosesDetokenizer
moses = MosesDetokenizer(lang=sys.argv[1])
tokens = open(sys.argv[2], encoding="utf-8", newline="\n")
with open(sys.argv[3], "w", encoding="utf-8", newline="\n") as text:
    text.writelines(moses.detokenize(line.split()) + "\n" for line in tokens)
' "$lang" "$out/tok/$split.$lang" "$part/$split.$lang"
    done
  done
}

out="" local_dir="" bpe=10000 workers=$(nproc 2>/dev/null || echo 1)
parse_arguments "bpe workers" "local" "" "$@"
[[ -d $out/tok || -n $local_dir ]] || die "no IWSLT14 folder: give the one with {train,valid,test}.{de,en} with --local DIR"
[[ -d $out/tok || -d $local_dir ]] || die "no folder $local_dir: give the IWSLT14 folder with --local DIR"
find_python

open_out "$out" "iwslt14 tokenised bpe=$bpe"
step "$out" tok "read and check the tokenised text" copy_tokenised
step "$out" raw "detokenise" detokenize
step "$out" bpe "joint BPE, $bpe merges" joint_bpe "$out/tok" de en "$bpe"
step "$out" bin "binarise" binarize "$out/bpe" de en "$workers"
say "ready: $out/bin"
