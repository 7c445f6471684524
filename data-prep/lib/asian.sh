# Shell functions of the preparations with Japanese or Chinese, which have to be segmented into words; source it after
# lib/base.sh.
#
#   OUT/source  the text that was read and checked      OUT/words  its words; both folders are removed after use
#   OUT/raw, OUT/tok  raw text and words of the training pairs that are kept, and of all other splits
#   OUT/bpe     BPE with the codes of both languages' text, or a SentencePiece model for each language (then no OUT/tok)
#
# {train,valid,test,test1…}.LANG, and .LANG.ref0, .ref1, … where there are several references. The command line sets
# segmented, joined_dictionary and bpe (merges).

STEPS="source words raw tok bpe bin"
segmented=0 joined_dictionary=0

# words_of_all SOURCE PART: the words of every file; Chinese or Japanese is segmented unless it comes in words.
words_of_all() {
  local options=()
  [[ $segmented == 0 ]] || options+=(--segmented)
  "$PYTHON" -m corpora.tokens.segment words "$1" "$2" --workers "$workers" ${options[@]+"${options[@]}"}
}

# keep_fitting FOLDER MOST PUBLISHED PART: the training pairs of FOLDER with 1 to MOST words a side in OUT/words (0: any
# number), and the other splits. PUBLISHED is the number of pairs in a paper (0: unknown).
keep_fitting() {
  local folder=$1 most=$2 published=$3 part=$4 options=() file
  [[ $most == 0 ]] || options+=(--max "$most")
  [[ $published == 0 ]] || options+=(--official "$published")
  "$PYTHON" -m corpora.text.bitext select "$part" "$src" "$tgt" --measure "$out/words/train" --take "$folder/train" \
    ${options[@]+"${options[@]}"}
  for file in "$folder"/*; do
    if [[ $(basename "$file") != train.* ]]; then cp "$file" "$part/"; fi
  done
}

quietly() { "$@" >/dev/null; }

# in_words MOST PUBLISHED COMMAND…: make OUT/raw and OUT/tok of what `COMMAND… OUT/source` reads; see keep_fitting.
in_words() {
  local most=$1 published=$2
  shift 2
  if [[ ! -d $out/raw || ! -d $out/tok ]]; then
    step source "read and check the text" "$@"
    long_step words "segment the text into words" words_of_all "$out/source"
    step raw "take the training pairs" keep_fitting "$out/source" "$most" "$published"
    step tok "take their words" quietly keep_fitting "$out/words" "$most" 0
  fi
  rm -rf "$out/source" "$out/words"
}

# bpe_and_binarize: codes of both languages together, and two dictionaries or one.
bpe_and_binarize() {
  local kind=separate
  if [[ $joined_dictionary == 1 ]]; then kind=--joined-dictionary; fi
  long_step bpe "BPE, $bpe merges" joint_bpe "$out/tok" "$bpe"
  step bin "binarise" binarize "$out/bpe" "$kind"
}
