#!/usr/bin/env bash
# Prepares WMT14 English-French as fairseq's recipe does: get, check, tokenise, joint BPE, clean, binarise. Run again, it
# continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/bitext.sh"

usage() {
  cat <<'EOF'
usage: prepare_wmt14_en_fr.sh OUT [options]
  --local DIR      folder with the archives named below, or with their files, plain or .gz ($WMT14_EN_FR_DIR; or download)
  --valid SET      split: every N-th pair of the training text (the default); or newstest2013 (3,000 pairs)
  --every N        with --valid split (1333)
  --max N          no sentence with more subwords (250)
  --ratio X        no pair with a side X times as long as the other, in subwords (1.5)
  --bpe N          joint BPE merges (40000)
  --workers N      processes (number of CPU cores)
  --no-checksums   accept other archives than the official ones
  --min-correlation X  of the lengths of the two sides, in text that no checksum covers (0.3; -1: take it as it is)
Archives: training-parallel-{europarl-v7,commoncrawl,un,nc-v9}.tgz, training-giga-fren.tar, test-full.tgz, and dev.tgz (of WMT17)
for newstest2013: 6.7 GB. It takes about 100 GB of disk, and for learning the codes 1 GB of memory a million distinct words.
Train about 36 million pairs of 40.8, cased, Moses tokens with split dashes; test newstest2014 (3,003). Cleaned after BPE, the
validation text of --valid split as well. OUT/bin is for fairseq in both directions. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

wmt=http://www.statmt.org mirror=${WMT14_URL:-}
src=en tgt=fr local_dir=${WMT14_EN_FR_DIR:-} valid=split every=1333 max=250 ratio=1.5 bpe=40000

read_text() {
  local part=$1
  join_newstests "$part"
  begin_pairs
  add_pair "$wmt/wmt13/training-parallel-europarl-v7.tgz" training/europarl-v7.fr-en
  add_pair "$wmt/wmt13/training-parallel-commoncrawl.tgz" commoncrawl.fr-en
  add_pair "$wmt/wmt13/training-parallel-un.tgz" un/undoc.2000.fr-en
  add_pair "$wmt/wmt14/training-parallel-nc-v9.tgz" training/news-commentary-v9.fr-en
  add_pair "$wmt/wmt10/training-giga-fren.tar" giga-fren.release2.fixed .gz
  join_pairs "$part/all"
  divide "$part"
}

# divide PART: take every N-th line as validation text, before anything is removed.
divide() {
  local part=$1 lang
  if [[ $valid == split ]]; then
    "$PYTHON" -m corpora.text.bitext select "$part" en fr --measure "$part/all" --take "$part/all" --min 0 --every "$every"
    rm "$part"/all.*
  else
    for lang in en fr; do mv "$part/all.$lang" "$part/train.$lang"; done
  fi
}

# clean FROM PART: FROM without the pairs of train and valid whose numbers of subwords exceed the limits.
clean() {
  local from=$1 part=$2 limits=(--max "$max" --ratio "$ratio")
  if [[ $valid == split ]]; then
    "$PYTHON" -m corpora.text.bitext select "$part" en fr --measure "$out/subwords/valid" --take "$from/valid" --name valid "${limits[@]}"
  fi
  take_pairs "$from" "$out/subwords" "${limits[@]}" "$part"
  if [[ -e $from/codes ]]; then cp "$from/codes" "$part/"; fi
}

parse_arguments "every max bpe workers" "local valid ratio min-correlation" "no-checksums" "$@"
need_decimal --ratio "$ratio" 1
need_decimal --min-correlation "$min_correlation" -1
[[ $valid == split || $valid == newstest2013 ]] || die "--valid is split or newstest2013, got '$valid'"
need_folder "$local_dir" "the archives"
find_python

options="wmt14_en_fr valid=$valid every=$every max=$max ratio=$ratio bpe=$bpe checksums=$((1 - no_checksums))"
open_out "$options local=$(source_of "$local_dir")"
if [[ ! -d $out/bpe || ! -d $out/tok || ! -d $out/raw ]]; then
  step text "read and check the text" read_text
  remove_unpacked
  long_step tokens "tokenise" tokenize_wmt "$out/text"
  long_step subwords "joint BPE, $bpe merges" joint_bpe "$out/tokens" "$bpe"
  step raw "clean the text" clean "$out/text"
  step tok "clean the tokens" clean "$out/tokens"
  step bpe "clean the subwords (the paper: about 36 million pairs)" clean "$out/subwords"
fi
rm -rf "$out/text" "$out/tokens" "$out/subwords"
step bin "binarise" binarize "$out/bpe"
say "ready: $out/bin"
