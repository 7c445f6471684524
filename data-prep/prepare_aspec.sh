#!/usr/bin/env bash
# Prepares WAT17 English-Japanese (ASPEC), or other parallel text of these languages: read, check, split into subwords,
# binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/asian.sh"

usage() {
  cat <<'EOF'
usage: prepare_aspec.sh OUT --local DIR [options]
  --local DIR           ASPEC-JE: train/train-{1,2,3}.txt, dev/dev.txt, test/test.txt, plain or .gz ($ASPEC_DIR); there is no
                        download: its licence asks for an application to https://jipsti.jst.go.jp/aspec/
  --sections N          training files, the best aligned first: 1, 2 or 3 (2: 2,000,000 pairs)
  --pairs DIR           not ASPEC: {train,dev or valid,test}.{en,ja}, plain or .gz
  --min-correlation X   with --pairs: of the lengths of the two sides, by blocks of lines; -1: not checked (0.3)
  --join-ja             with --pairs: the Japanese is in words there; join them to raw text
  --pieces N            SentencePiece: N pieces for each language, from raw text (16000, Cui et al. 2019)
  --bpe N               instead: words by Moses and MeCab, then BPE with N merges (Yang et al. 2019: 32000)
  --joined-dictionary   with --bpe: one dictionary for both languages; else there are two
  --workers N           processes (number of CPU cores)
Splits: train, valid = dev (1,790 pairs), test (1,812). OUT/bin is for fairseq in both directions. With --pieces there is no
OUT/tok. --bpe needs pip install -e '.[ja]'. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

src=en tgt=ja local_dir=${ASPEC_DIR:-} pairs="" min_correlation=0.3 sections=2 join_ja=0 pieces="" bpe=""
# https://jipsti.jst.go.jp/aspec/ counts 1,000,000, 1,000,000 and 1,008,500 pairs, dev 1,790 and test 1,812.
train_pairs=(0 1000000 2000000 3008500)

read_aspec() {
  local part=$1 number files=()
  for number in $(seq "$sections"); do files+=("$(find_file "$local_dir" "train/train-$number.txt")"); done
  "$PYTHON" -m corpora.sources.aspec "$part/valid.ja" "$part/valid.en" "$(find_file "$local_dir" dev/dev.txt)" --official 1790
  "$PYTHON" -m corpora.sources.aspec "$part/test.ja" "$part/test.en" "$(find_file "$local_dir" test/test.txt)" --official 1812
  "$PYTHON" -m corpora.sources.aspec "$part/train.ja" "$part/train.en" "${files[@]}" --scored --official "${train_pairs[sections]}"
}

read_pairs() {
  local part=$1 split name japanese
  for split in $SPLITS; do
    name=$split
    if [[ $split == valid && ! -e $(find_file "$pairs" valid.ja) ]]; then name=dev; fi
    japanese=$part/$split.ja
    if [[ $join_ja == 1 ]]; then japanese+=.words; fi
    "$PYTHON" -m corpora.text.bitext join "$part/$split.en" "$japanese" \
      --pair "$(find_file "$pairs" "$name.en")" "$(find_file "$pairs" "$name.ja")" --min-correlation "$min_correlation"
    if [[ $join_ja == 1 ]]; then
      "$PYTHON" -m corpora.tokens.segment join "$japanese" "$part/$split.ja" --workers "$workers"
      rm "$japanese"
    fi
  done
}

parse_arguments "sections pieces bpe workers" "local pairs min-correlation" "join-ja joined-dictionary" "$@"
need_decimal --min-correlation "$min_correlation" -1
[[ -z $pieces || -z $bpe ]] || die "--pieces or --bpe, please, not both"
[[ $joined_dictionary == 0 || -n $bpe ]] || die "--joined-dictionary goes with --bpe"
[[ $join_ja == 0 || -n $pairs ]] || die "--join-ja goes with --pairs: the text of ASPEC is raw"
((sections <= 3)) || die "--sections is 1, 2 or 3, got '$sections'"
[[ -n $bpe ]] || pieces=${pieces:-16000}
if [[ -n $pairs ]]; then
  folder=$pairs options="pairs=$(realpath -m "$pairs") join-ja=$join_ja" reader=read_pairs published=0
else
  [[ -n $local_dir ]] || die "no ASPEC folder: give the one with train/, dev/ and test/ with --local DIR, or see --pairs"
  folder=$local_dir options="local=$(realpath -m "$local_dir") sections=$sections" reader=read_aspec
  published=${train_pairs[sections]}
fi
[[ -d $folder || -d $out/raw ]] || die "no folder $folder: give the corpus with --local DIR or --pairs DIR"
find_python

open_out "aspec $options pieces=$pieces bpe=$bpe joined=$joined_dictionary"
if [[ -n $bpe ]]; then
  in_words 0 "$published" "$reader"
  bpe_and_binarize
else
  step raw "read and check the text" "$reader"
  long_step bpe "SentencePiece, $pieces pieces each" make_subwords pieces separate "$out/raw" "$pieces"
  step bin "binarise" binarize "$out/bpe" separate
fi
say "ready: $out/bin"
