# Shell functions of the preparations of texts with summaries; source it after lib/base.sh. Their OUT:
#
#   OUT/raw    {train,valid,test}.article and .summary, as published    OUT/vocab  vocab.txt, dict.txt: WordPiece and fairseq
#   OUT/tok    {valid,test}.summary: words in lower case, for ROUGE     OUT/bpe    all texts in WordPieces
#   OUT/bin    for fairseq, article to summary, with one dictionary of the size of the vocabulary
#
# The command line sets vocab (--vocab) and train_vocab (--train-vocab).

. "$PREP_DIR/lib/fetch.sh"
STEPS="raw vocab tok bpe bin"
src=article tgt=summary vocab="" train_vocab=""
# The vocabulary of BERT's uncased models, which MASS and MAN use: 30,522 entries. See checksums.txt.
bert_vocabulary=https://huggingface.co/bert-base-uncased/resolve/86b5e0934494bd15c9632b12f734a8a67f723594/vocab.txt

# check_vocab_options: --vocab FILE, --train-vocab N, or neither.
check_vocab_options() {
  [[ -z $vocab || -z $train_vocab ]] || die "--vocab FILE or --train-vocab N, not both"
  [[ -z $vocab || -f $vocab || -d $out/vocab ]] || die "no file $vocab: give a vocabulary, one entry a line, with --vocab FILE"
}

# vocabulary_name: print the vocabulary, for the options of OUT.
vocabulary_name() {
  if [[ -n $train_vocab ]]; then echo "learned-$train_vocab"; elif [[ -n $vocab ]]; then realpath -m "$vocab"; else echo bert; fi
}

# make_vocabulary PART
make_vocabulary() {
  local part=$1 file=$vocab
  if [[ -n $train_vocab ]]; then
    "$PYTHON" -m corpora.tokens.wordpiece learn "$train_vocab" "$part" "$out/raw/train.article" "$out/raw/train.summary"
    return
  fi
  if [[ -z $vocab ]]; then obtain "$bert_vocabulary"; fi
  "$PYTHON" -m corpora.tokens.wordpiece check "$file" "$part"
}

# reference_words PART: the references for ROUGE.
reference_words() {
  local part=$1 split
  for split in valid test; do
    "$PYTHON" -m corpora.tokens.wordpiece words "$out/vocab/vocab.txt" "$out/raw/$split.summary" "$part/$split.summary" \
      --workers "$workers"
  done
}

# cut_into_pieces WORDS PART: WordPieces of all texts, and of the first WORDS words of a summary outside of the test set (0:
# of all).
cut_into_pieces() {
  local most=$1 part=$2 split lang words
  for split in $SPLITS; do
    for lang in article summary; do
      words=0
      if [[ $lang == summary && $split != test ]]; then words=$most; fi
      "$PYTHON" -m corpora.tokens.wordpiece encode "$out/vocab/vocab.txt" "$out/raw/$split.$lang" "$part/$split.$lang" \
        --max-words "$words" --workers "$workers"
    done
  done
  # fairseq-generate refuses a test set with a target beyond the model's 512 positions. ROUGE is taken against OUT/tok.
  cut -d ' ' -f -511 "$part/test.summary" >"$part/test.summary.cut"
  mv "$part/test.summary.cut" "$part/test.summary"
}

# finish_summaries WORDS: all steps after OUT/raw.
finish_summaries() {
  local words=$1
  step vocab "vocabulary" make_vocabulary
  step tok "words of the references" reference_words
  long_step bpe "cut into WordPieces" cut_into_pieces "$words"
  step bin "binarise" binarize "$out/bpe" --joined-dictionary --srcdict "$out/vocab/dict.txt"
  say "ready: $out/bin"
}
