# Shell functions of prepare_parallel.sh, parallel text of any two languages; source it after lib/bitext.sh and lib/trees.sh.
# The command line sets source, target, train, valid, test, tokenizer, bpe, pieces, separate, max, ratio and held_out.

# check_parallel_options: set src, tgt, kind (codes or pieces), size, sides and dictionaries.
check_parallel_options() {
  local split lang
  for lang in source target; do
    [[ ${!lang} =~ ^[A-Za-z0-9_]+$ ]] || die "--$lang needs the ending of its files, such as de, got '${!lang}'"
  done
  [[ $source != "$target" ]] || die "--source and --target are both '$source'"
  src=$source tgt=$target
  [[ -n $train ]] || die "--train PREFIX is missing: PREFIX.$src and PREFIX.$tgt are the training text"
  for split in $SPLITS; do
    for lang in "$src" "$tgt"; do
      [[ -z ${!split} || -e ${!split}.$lang || -e ${!split}.$lang.gz || -d $out/raw ]] ||
        die "no file ${!split}.$lang, nor one with .gz: --$split is what both names have in common"
    done
  done
  [[ -z $bpe || -z $pieces ]] || die "--bpe or --pieces, please, not both"
  tokenizer=${tokenizer:-$(if [[ -n $pieces ]]; then echo none; else echo moses; fi)}
  [[ $tokenizer == moses || $tokenizer == none ]] || die "--tokenizer is moses or none, got '$tokenizer'"
  [[ -z $ratio ]] || need_decimal --ratio "$ratio" 1
  need_decimal --min-correlation "$min_correlation" -1
  check_trees_options "$src" "$tgt"
  kind=codes size=${bpe:-10000} sides=joint dictionaries=()
  if [[ -n $pieces ]]; then kind=pieces size=$pieces subwords=sentencepiece; fi
  if [[ $separate == 1 ]]; then sides=separate dictionaries=(separate); fi
}

# read_parallel PART: the given text. Test and validation text must have no empty line, so that nothing of it is lost.
read_parallel() {
  local part=$1 split check=(--min-correlation "$min_correlation")
  if [[ $tokenizer == none && $kind == codes ]]; then check+=(--words); fi
  for split in $SPLITS; do
    [[ -n ${!split} ]] || continue
    set -- "$(find_prefixed "${!split}" "$src")" "$(find_prefixed "${!split}" "$tgt")"
    if [[ $split == train ]]; then
      "$PYTHON" -m corpora.text.bitext join "$part/train.$src" "$part/train.$tgt" --pair "$@" "${check[@]}"
    else
      "$PYTHON" -m corpora.text.parallel pair "$@" "${check[@]}" --write "$part/$split.$src" "$part/$split.$tgt"
    fi
  done
}

# find_prefixed PREFIX LANG: print the path of PREFIX.LANG, or of its .gz.
find_prefixed() { find_file "$(dirname "$1")" "$(basename "$1").$2"; }

# tokenize_parallel PART: OUT/text in tokens, as fairseq-interactive makes them of raw sentences.
tokenize_parallel() {
  local part=$1 file
  for file in "$out"/text/*; do
    if [[ $tokenizer == none ]]; then
      cp "$file" "$part/"
    else
      tokenize_split "$out/text" "$(basename "${file%.*}")" "${file##*.}" --no-normalise --aggressive-dash-splits --allow-empty "$part"
    fi
  done
}

# divide_parallel FROM PART: the pairs of FROM whose tokens have the right lengths, without those that are held out.
divide_parallel() {
  local limits=(--max "$max") pairs missing=()
  [[ -z $ratio ]] || limits+=(--ratio "$ratio")
  [[ -n $valid ]] || missing+=(valid)
  [[ -n $test ]] || missing+=(test)
  if [[ ${#missing[@]} != 0 ]]; then
    pairs=$(($(wc -l <"$out/tokens/train.$src") / held_out))
    limits+=(--every $((pairs > 10 ? pairs : 10)) --held-out "${missing[@]}")
  fi
  take_pairs "$1" "$out/tokens" "${limits[@]}" "$2"
}
