# Shell functions of the preparations of one text a line, with labels (classification) or without (language models); source
# it after lib/base.sh. Their OUT:
#
#   OUT/raw   {train,valid,test}.text and .label, aligned; labels.txt: the labels in order     (language models: {…}.LANG)
#   OUT/tok   Moses tokens, if the source is not tokenised      OUT/dict  dict.txt, the words of the training text
#   OUT/bin   input0/ and label/ for fairseq's task sentence_prediction                       (language models: no folders)

. "$PREP_DIR/lib/fetch.sh"
STEPS="raw tok dict bin"

# unchecked_note: print " checksums=0", for the options of OUT, where --no-checksums is given.
unchecked_note() { if [[ $no_checksums == 1 ]]; then echo " checksums=0"; fi; }

# make_dictionary TEXT WORDS MIN_COUNT PART
make_dictionary() {
  "$PYTHON" -m corpora.tokens.dictionary "$1" "$4/dict.txt" --words "$2" --min-count "$3"
}

# binarize_lines FOLDER SUFFIX DICT PART: fairseq-preprocess of FOLDER/{train,valid,test}.SUFFIX with an existing dictionary.
binarize_lines() {
  local folder=$1 suffix=$2 dict=$3 part=$4 split
  preprocess "$part" --only-source --srcdict "$dict" --trainpref "$folder/train.$suffix" \
    --validpref "$folder/valid.$suffix" --testpref "$folder/test.$suffix"
  for split in $SPLITS; do
    check_sentences "$folder/$split.$suffix" "$part"
    [[ $suffix == label ]] ||
      say "$split: $(sed -nE "s|.*/$split\.$suffix: ([0-9]+ sents.*)|\1|p" "$part/console.log")"
  done
  rm "$part/console.log" # preprocess.log has the same content
}

# binarize_labelled TEXTS PART: for the task sentence_prediction, with TEXTS/SPLIT.text and OUT/raw/SPLIT.label. The labels'
# dictionary is given: class k is the label in its line k, and fairseq adds no made-up classes.
binarize_labelled() {
  binarize_lines "$1" text "$out/dict/dict.txt" "$2/input0"
  workers=1 binarize_lines "$out/raw" label "$out/raw/labels.txt" "$2/label"
}

# finish_labelled TEXTS SENTENCES MIN_COUNT: all steps after the tokens TEXTS; SENTENCES: text from which to count words.
finish_labelled() {
  step dict "count the words" make_dictionary "$2" 0 "$3"
  step bin "binarise" binarize_labelled "$1"
  say "ready: $out/bin"
}

# finish_lm LANG WORDS MIN_COUNT: all steps after OUT/raw.
finish_lm() {
  step dict "count the words" make_dictionary "$out/raw/train.$1" "$2" "$3"
  step bin "binarise" binarize_lines "$out/raw" "$1" "$out/dict/dict.txt"
  say "ready: $out/bin"
}
