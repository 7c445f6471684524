# Shell functions of the preparations with Japanese or Chinese, whose words have to be found; source it after lib/base.sh.
#
#   OUT/source  what was read, checked, as lines      OUT/words  the same in words
#   OUT/raw     raw text, OUT/tok its words: of both the training pairs that are kept; the two folders above go then
#   OUT/bpe     BPE with the codes of both languages' text, or a SentencePiece model for each (then there is no OUT/tok)
#
# {train,valid,test,test1…}.LANG, and .LANG.ref0, .ref1, … where there are several references.

STEPS="source words raw tok bpe bin"

# words_of_all SOURCE SEGMENTED(0|1) WORKERS PART: the words of every file, those of Chinese or Japanese found or as they are.
words_of_all() {
  local source=$1 segmented=$2 workers=$3 part=$4 options=()
  [[ $segmented == 0 ]] || options+=(--segmented)
  "$PYTHON" -m corpora.tokens.segment words "$source" "$part" --workers "$workers" ${options[@]+"${options[@]}"}
}

# keep_fitting FOLDER WORDS SRC TGT MOST PUBLISHED PART: the training pairs of FOLDER with 1 to MOST words a side (0: any
# number) in WORDS, and the other splits as they are. PUBLISHED (0: unknown) is a number to print beside.
keep_fitting() {
  local folder=$1 words=$2 src=$3 tgt=$4 most=$5 published=$6 part=$7 options=() file
  [[ $most == 0 ]] || options+=(--max "$most")
  [[ $published == 0 ]] || options+=(--official "$published")
  "$PYTHON" -m corpora.text.bitext select "$part" "$src" "$tgt" --measure "$words/train" --take "$folder/train" \
    ${options[@]+"${options[@]}"}
  for file in "$folder"/*; do
    if [[ $(basename "$file") != train.* ]]; then cp "$file" "$part/"; fi
  done
}

quietly() { "$@" >/dev/null; }

# in_words OUT SRC TGT SEGMENTED MOST PUBLISHED WORKERS COMMAND…: `COMMAND… OUT/source` reads the corpus; from there to
# OUT/raw and OUT/tok.
in_words() {
  local out=$1 src=$2 tgt=$3 segmented=$4 most=$5 published=$6 workers=$7
  shift 7
  if [[ ! -d $out/raw || ! -d $out/tok ]]; then
    step "$out" source "read and check the text" "$@"
    long_step "$out" words "part the text into words" words_of_all "$out/source" "$segmented" "$workers"
    step "$out" raw "take the training pairs" keep_fitting "$out/source" "$out/words" "$src" "$tgt" "$most" "$published"
    step "$out" tok "take their words" quietly keep_fitting "$out/words" "$out/words" "$src" "$tgt" "$most" 0
  fi
  rm -rf "$out/source" "$out/words"
}

# sided_pieces RAW SRC TGT PIECES WORKERS PART: a SentencePiece model for each language, LANG.model. The share of characters
# that a model must know is what SentencePiece's own documentation advises.
sided_pieces() {
  local raw=$1 src=$2 tgt=$3 pieces=$4 workers=$5 part=$6 lang split coverage
  for lang in "$src" "$tgt"; do
    coverage=0.9995
    if [[ $lang == en ]]; then coverage=1.0; fi
    [[ -e $part/$lang.model ]] ||
      "$PYTHON" -m corpora.tokens.sentencepieces train "$part/$lang.model" "$raw/train.$lang" --pieces "$pieces" \
        --coverage "$coverage"
    for split in $SPLITS; do
      "$PYTHON" -m corpora.tokens.sentencepieces apply "$part/$lang.model" "$raw/$split.$lang" "$part/$split.$lang" \
        --workers "$workers" --resume
    done
  done
}

# bpe_and_binarize OUT SRC TGT MERGES JOINED(0|1) WORKERS: codes of both languages together, and two dictionaries or one.
bpe_and_binarize() {
  local out=$1 src=$2 tgt=$3 merges=$4 joined=$5 workers=$6 kind=(separate)
  if [[ $joined == 1 ]]; then kind=(--joined-dictionary); fi
  long_step "$out" bpe "BPE, $merges merges" joint_bpe "$out/tok" "$src" "$tgt" "$merges" "$workers"
  step "$out" bin "binarise" binarize "$out/bpe" "$src" "$tgt" "$workers" "${kind[@]}"
}
