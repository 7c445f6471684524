# Shell functions of the preparations that clean large parallel text; source it after lib/base.sh. Until OUT/tok and OUT/raw are
# complete their OUT has two more folders:
#
#   OUT/text  {train,valid,test}.LANG: the text of all sources, one after the other        OUT/tokens  its tokens

. "$PREP_DIR/lib/fetch.sh"
STEPS="text tokens subwords tok raw bpe bin"

# begin_pairs, add_pair URL PREFIX SRC TGT [ENDING]: collect in `pairs` the files PREFIX.SRC and PREFIX.TGT of an archive for
# join_pairs; ENDING (.gz) is what their names have more in there. Uses the variables of obtain_members.
begin_pairs() { pairs=() all_verified=1; }

add_pair() {
  local url=$1 prefix=$2 src=$3 tgt=$4 ending=${5:-}
  obtain_members "$url" "$prefix.$src$ending" "$prefix.$tgt$ending"
  [[ $verified == 1 ]] || all_verified=0
  pairs+=(--pair "$(find_file "$folder" "$prefix.$src")" "$(find_file "$folder" "$prefix.$tgt")")
}

# join_pairs PREFIX SRC TGT [OPTION…]: write what add_pair has collected to PREFIX.SRC and PREFIX.TGT. Text of the official
# archives is what it is; the lengths of other text are checked by --min-correlation (the preparation's min_correlation),
# and a last line without a newline is taken for the end of a file that was cut off, unless that is -1.
join_pairs() {
  local prefix=$1 src=$2 tgt=$3 check=(--min-correlation "$min_correlation")
  shift 3
  if [[ $all_verified == 1 || $min_correlation == -1 ]]; then check=(--min-correlation -1 --open-end); fi
  "$PYTHON" -m corpora.text.bitext join "$prefix.$src" "$prefix.$tgt" "${pairs[@]}" "${check[@]}" "$@"
}

# take_pairs FROM MEASURE SRC TGT [OPTION…] PART: the pairs of FROM/train whose lines in MEASURE/train fit the OPTIONs of
# bitext.py select; the other splits as they are in FROM, where the OPTIONs or the caller have not made them.
take_pairs() {
  local from=$1 measure=$2 src=$3 tgt=$4 part=${*: -1} split lang
  "$PYTHON" -m corpora.text.bitext select "$part" "$src" "$tgt" --measure "$measure/train" --take "$from/train" "${@:5:$#-5}"
  for split in $SPLITS; do
    for lang in "$src" "$tgt"; do
      [[ -e $part/$split.$lang ]] || cp "$from/$split.$lang" "$part/"
    done
  done
}

# tokenize_split TEXT SPLIT LANG WORKERS [OPTION…] PART: goes on where a stopped run of the same long_step was.
tokenize_split() {
  "$PYTHON" -m corpora.tokens.moses_tokenize --lang "$3" --workers "$4" --resume "${@:5:$#-5}" "$1/$2.$3" "${*: -1}/$2.$3"
}

# tokenize_wmt TEXT SRC TGT WORKERS PART: as fairseq's recipes for WMT do. Dashes are split everywhere; test sets are not
# normalised, but ’ becomes ' in them.
tokenize_wmt() {
  local text=$1 src=$2 tgt=$3 workers=$4 part=$5 split lang options
  for split in $SPLITS; do
    options=(--aggressive-dash-splits --allow-empty)
    if [[ $split == test* ]]; then options+=(--no-normalise --plain-apostrophes); fi
    for lang in "$src" "$tgt"; do
      tokenize_split "$text" "$split" "$lang" "$workers" "${options[@]}" "$part"
    done
  done
}
