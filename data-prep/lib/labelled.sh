# Shell functions of the preparations with one text a line, with labels (classification) or without (language models); source it
# after lib.sh. Their OUT:
#
#   OUT/raw   {train,valid,test}.text and .label, aligned; labels.txt: the labels in order     (language models: {…}.LANG)
#   OUT/tok   Moses-tokenised, where the source is not tokenised      OUT/dict  dict.txt, the words of the training text
#   OUT/bin   input0/ and label/ for fairseq's task sentence_prediction                       (language models: no folders)

. "$PREP_DIR/lib/fetch.sh"
STEPS="raw tok dict bin"

# need_count OPTION VALUE: a number from 0.
need_count() { [[ $2 =~ ^(0|[1-9][0-9]*)$ ]] || die "$1 needs a number from 0, got '$2'"; }

# make_dictionary TEXT WORDS MIN_COUNT PART
make_dictionary() {
  "$PYTHON" -m corpora.tokens.dictionary "$1" "$4/dict.txt" --words "$2" --min-count "$3"
}

# binarize_lines FOLDER SUFFIX DICT WORKERS PART: fairseq-preprocess of FOLDER/{train,valid,test}.SUFFIX with a dictionary
# that is already there.
binarize_lines() {
  local folder=$1 suffix=$2 dict=$3 workers=$4 part=$5 split lines found
  mkdir -p "$part"
  "$PYTHON" -m corpora.text.watch "binarise" "$part" "$part/console.log" \
    "$PYTHON" -m fairseq_cli.preprocess --only-source --srcdict "$dict" --trainpref "$folder/train.$suffix" \
    --validpref "$folder/valid.$suffix" --testpref "$folder/test.$suffix" --destdir "$part" --workers "$workers" ||
    die "fairseq-preprocess failed: $(tail -n 1 "$part/console.log")"
  for split in $SPLITS; do
    lines=$(wc -l <"$folder/$split.$suffix")
    found=$(sed -nE "s|.*/$split\.$suffix: ([0-9]+) sents, .*|\1|p" "$part/console.log")
    [[ $found == "$((lines))" ]] || die "fairseq-preprocess made ${found:-no} of $((lines)) lines of $folder/$split.$suffix"
    [[ $suffix == label ]] ||
      say "$split: $(sed -nE "s|.*/$split\.$suffix: ([0-9]+ sents.*)|\1|p" "$part/console.log")"
  done
  rm "$part/console.log" # preprocess.log holds the same
}

# binarize_labelled TEXTS RAW DICT WORKERS PART: for the task sentence_prediction; TEXTS has the .text, RAW the .label files.
# The labels' dictionary is given, not counted: class k is the label on its line k, and fairseq adds no made-up classes.
binarize_labelled() {
  binarize_lines "$1" text "$3" "$4" "$5/input0"
  binarize_lines "$2" label "$2/labels.txt" 1 "$5/label"
}
