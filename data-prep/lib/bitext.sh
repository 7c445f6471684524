# Shell functions of the preparations that clean large parallel text; source it after lib/base.sh. Until OUT/tok and OUT/raw
# are complete their OUT has two more folders:
#
#   OUT/text  {train,valid,test}.LANG: the text of all sources, one after the other        OUT/tokens  its tokens

. "$PREP_DIR/lib/fetch.sh"
STEPS="text tokens subwords tok raw bpe bin"
min_correlation=0.3

# join_newstests PART: the test set newstest2014 and the validation set newstest2013 of WMT14, English (src) to another
# language. The latter is left out unless `valid` names it.
join_newstests() {
  local part=$1 name=test-full/newstest2014-${tgt}en
  begin_pairs
  add_files http://statmt.org/wmt14/test-full.tgz "$name-src.en.sgm" "$name-ref.$tgt.sgm"
  join_pairs "$part/test" --official 3003
  if [[ $valid == newstest2013 ]]; then
    begin_pairs
    add_pair http://data.statmt.org/wmt17/translation-task/dev.tgz dev/newstest2013
    join_pairs "$part/valid" --official 3000
  fi
}

# take_google ENDING PART: validation and test set of Google's prepared WMT16 English-German, in the files that end in ENDING;
# the training text as well, which is there in subwords alone. Numbers of pairs: torchtext's datasets/wmt14.py.
take_google() {
  local ending=$1 part=$2 subwords=.tok.bpe.32000 split name count set words=()
  [[ -z $ending ]] || words=(--words)
  obtain_members wmt16_en_de.tar.gz train.tok.clean.bpe.32000.{en,de} newstest201{3,4}{,.tok,$subwords}.{en,de}
  local sets=("valid newstest2013$ending 3000" "test newstest2014$ending 3003")
  if [[ $ending == "$subwords" ]]; then sets+=("train train.tok.clean.bpe.32000 4500966"); fi
  for set in "${sets[@]}"; do
    read -r split name count <<<"$set"
    all_verified=$verified pairs=(--pair "$(find_file "$folder" "$name.$src")" "$(find_file "$folder" "$name.$tgt")")
    join_pairs "$part/$split" --official "$count" ${words[@]+"${words[@]}"}
  done
}

# google_tokens FROM PART: tokens of the training text, from its subwords in FROM, beside those of the other splits.
google_tokens() {
  local from=$1 part=$2 lang
  take_google .tok "$part"
  for lang in "$src" "$tgt"; do sed -E 's/@@( |$)//g' "$from/train.$lang" >"$part/train.$lang"; done
}

# take_pairs FROM MEASURE [OPTION…] PART: the pairs of FROM/train whose lines in MEASURE/train have the lengths that the
# OPTIONs of bitext.py select allow; the other splits of FROM unless they exist in PART.
take_pairs() {
  local from=$1 measure=$2 part=${*: -1} split lang
  "$PYTHON" -m corpora.text.bitext select "$part" "$src" "$tgt" --measure "$measure/train" --take "$from/train" "${@:3:$#-3}"
  for split in $SPLITS; do
    for lang in "$src" "$tgt"; do
      [[ -e $part/$split.$lang ]] || cp "$from/$split.$lang" "$part/"
    done
  done
}

# tokenize_wmt TEXT PART: tokenise as fairseq's recipes for WMT. Dashes are split everywhere; test sets are not normalised,
# but ’ becomes ' in them.
tokenize_wmt() {
  local text=$1 part=$2 split lang options
  for split in $SPLITS; do
    options=(--aggressive-dash-splits --allow-empty)
    if [[ $split == test* ]]; then options+=(--no-normalise --plain-apostrophes); fi
    for lang in "$src" "$tgt"; do tokenize_split "$text" "$split" "$lang" "${options[@]}" "$part"; done
  done
}
