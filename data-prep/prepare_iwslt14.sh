#!/usr/bin/env bash
# Prepares IWSLT14 German-English as fairseq's recipe does: get, check, tokenise, clean, divide, joint BPE, binarise. Run again,
# it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/bitext.sh"

usage() {
  cat <<'EOF'
usage: prepare_iwslt14.sh OUT [options]
  --local DIR     folder with de-en.tgz, or with its files: train.tags.de-en.{de,en}, IWSLT14.TED….xml, there or in
                  DIR/de-en ($IWSLT14_DIR; without: download)
  --tokenised     DIR has {train,valid,test}.{de,en} instead, plain or .gz: Moses tokens, lower-cased. Then all but BPE is done
  --test SETS     fairseq: dev2010, TEDX.dev2012, tst2010 to tst2012 (the default); mma: dev2010, tst2010 to tst2013, as Cui et
                  al. 2019 write. tst2013 is not in de-en.tgz: put IWSLT15's IWSLT15.TED.tst2013.de-en.{de,en}.xml into DIR
  --bpe N         joint BPE merges (10000)
  --workers N     processes (number of CPU cores)
  --no-checksums  accept another de-en.tgz than the one that fairseq's recipe gets
  --min-correlation X  of the lengths of the two sides, in text that no checksum covers (0.3; -1: take it as it is)
Train 160,239 pairs, valid (every 23rd pair) 7,283, test 6,750. OUT/raw is cased text, OUT/tok lower-cased Moses tokens.
OUT/bin is for fairseq in both directions. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

url=http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz mirror=${IWSLT14_URL:-}
src=de tgt=en local_dir=${IWSLT14_DIR:-} tokenised=0 test=fairseq bpe=10000

# find_corpus: set folder to the one with the files of de-en.tgz.
find_corpus() {
  verified=0
  for folder in "$local_dir" "$local_dir/de-en"; do
    if [[ -n $local_dir && -e $(find_file "$folder" train.tags.de-en.de) ]]; then return; fi
  done
  obtain_members "$url" de-en
  folder+=/de-en
}

# find_test_sets: set pairs to the files of the test sets.
find_test_sets() {
  local sets=(TED.dev2010 TEDX.dev2012 TED.tst2010 TED.tst2011 TED.tst2012) name place
  if [[ $test == mma ]]; then sets=(TED.dev2010 TED.tst2010 TED.tst2011 TED.tst2012 TED.tst2013); fi
  pairs=()
  for name in "${sets[@]}"; do
    name=IWSLT14.$name.de-en place=$folder
    if [[ $name == *tst2013* && ! -e $(find_file "$place" "$name.de.xml") ]]; then
      name=${name/IWSLT14/IWSLT15} place=$local_dir
      [[ -n $place && -e $(find_file "$place" "$name.de.xml") ]] ||
        die "--test mma needs $name.{de,en}.xml of IWSLT15 in the folder of --local: IWSLT14's archive has no tst2013"
    fi
    pairs+=(--pair "$(find_file "$place" "$name.de.xml")" "$(find_file "$place" "$name.en.xml")")
  done
}

read_text() {
  local part=$1 count=()
  find_corpus
  all_verified=$verified
  find_test_sets
  if [[ $test == fairseq ]]; then count=(--official 6750); fi
  join_pairs "$part/test" ${count[@]+"${count[@]}"}
  pairs=(--pair "$(find_file "$folder" train.tags.de-en.de)" "$(find_file "$folder" train.tags.de-en.en)")
  join_pairs "$part/train" --markup
}

# fairseq's recipe calls the tokenizer alone, without normalisation, and replaces ’ by ' in the test sets.
tokenize_text() {
  local part=$1 lang options=(--no-normalise --lowercase --allow-empty)
  for lang in de en; do
    tokenize_split "$out/text" train "$lang" "${options[@]}" "$part"
    tokenize_split "$out/text" test "$lang" "${options[@]}" --plain-apostrophes "$part"
  done
}

# Pairs are cleaned by their tokens, and then divided.
limits=(--max 175 --ratio 1.5 --every 23 --official 160239 7283)

prepare_source() {
  open_out "iwslt14 test=$test bpe=$bpe checksums=$((1 - no_checksums)) local=$(source_of "$local_dir")"
  if [[ ! -d $out/tok || ! -d $out/raw ]]; then
    step text "read and check the text" read_text
    remove_unpacked
    long_step tokens "tokenise" tokenize_text
    step tok "clean and divide the tokens" take_pairs "$out/tokens" "$out/tokens" "${limits[@]}"
    step raw "clean and divide the text" take_pairs "$out/text" "$out/tokens" "${limits[@]}"
  fi
  rm -rf "$out/text" "$out/tokens"
}

# In the test set two talks are shifted by a sentence for some dozens of lines (around 1,000 and 1,800). The lengths in
# such a block still correlate by 0.38, so that --min-correlation is enough for this split.
copy_tokenised() {
  local part=$1 split check
  for split in $SPLITS; do
    check=(--min-correlation "$min_correlation")
    # train and valid keep the default bound of parallel.py, unless it is turned off.
    [[ $split == test || $min_correlation == -1 ]] || check=()
    "$PYTHON" -m corpora.text.parallel pair "$(find_file "$local_dir" "$split.de")" "$(find_file "$local_dir" "$split.en")" \
      --words ${check[@]+"${check[@]}"} --write "$part/$split.de" "$part/$split.en"
  done
}

detokenize() {
  local part=$1 split lang
  for split in $SPLITS; do
    for lang in de en; do
      "$PYTHON" -m corpora.tokens.moses_tokenize --detokenise --lang "$lang" --workers "$workers" \
        "$out/tok/$split.$lang" "$part/$split.$lang"
    done
  done
}

# OUT/tok is the given text; OUT/raw is made of it by sacremoses' detokenizer, as there is no other raw text.
prepare_tokenised() {
  [[ -n $local_dir ]] || die "--tokenised needs --local DIR, with {train,valid,test}.{de,en}"
  open_out "iwslt14 tokenised bpe=$bpe local=$(source_of "$local_dir")"
  step tok "read and check the tokenised text" copy_tokenised
  step raw "detokenise" detokenize
}

parse_arguments "bpe workers" "local test min-correlation" "tokenised no-checksums" "$@"
need_decimal --min-correlation "$min_correlation" -1
[[ $test == fairseq || $test == mma ]] || die "--test is fairseq or mma, got '$test'"
[[ $tokenised == 0 || $test == fairseq ]] || die "--test cannot choose the test set of tokenised text"
need_folder "$local_dir" "de-en.tgz or its files"
find_python
if [[ $tokenised == 1 ]]; then prepare_tokenised; else prepare_source; fi
long_step bpe "joint BPE, $bpe merges" joint_bpe "$out/tok" "$bpe"
step bin "binarise" binarize "$out/bpe"
say "ready: $out/bin"
