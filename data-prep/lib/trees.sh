# Shell functions for phrases that come from constituency trees; source it after lib/base.sh.
#
#   OUT/tree     {train,valid,test}.LANG.tree: a bracketing beside each line of OUT/tok, an empty line where there is none
#   OUT/phrases  report.txt of what then stands in OUT/bin, beside the text of LANG: its phrases and their tags
#
# These two steps have options of their own (OUT/trees.txt), so that they can be added to data that were prepared before.

# check_trees_options TREES PARSER TREE_FILES LANGUAGE…: the values of --trees, --parser and --tree-files go together.
check_trees_options() {
  local trees=$1 parser=$2 files=$3
  shift 3
  if [[ -z $trees ]]; then
    [[ -z $parser$files ]] || die "--parser and --tree-files need --trees LANGUAGE, the language of the trees"
    return 0
  fi
  [[ " $* " == *" $trees "* ]] || die "--trees $trees: no such language here, there is: $*"
  [[ -z $parser || -z $files ]] || die "--parser or --tree-files, please, not both"
  [[ -z $parser || -d $parser ]] || die "--parser $parser: no such folder; train models with data-prep/train_parser.py"
  [[ -z $files || -d $files ]] || die "--tree-files $files: no such folder"
}

# open_trees OUT OPTIONS: refuse other options than those of the trees that are complete.
open_trees() {
  local out=$1 options=$2 file=$1/trees.txt
  # Trees that the user brought and the step of the phrases refused can be brought again.
  if [[ ! -d $out/phrases && -e $file && $(cat "$file") == *" tree-files="* ]]; then rm -rf "$out/tree"; fi
  [[ ! -e $file || $(cat "$file") != "$options" ]] || return 0
  if [[ -d $out/tree || -d $out/phrases ]]; then
    die "$out has the trees of '$(cat "$file")', now asked for '$options'; give another folder, or remove" \
      "$out/tree and $out/phrases"
  fi
  rm -rf "$out/tree.parsing"
  printf '%s\n' "$options" >"$file.part"
  mv "$file.part" "$file"
}

# parse_all OUT LANG MODELS CASED LOWERCASE(0|1) WORKERS PART: parse OUT/tok; MODELS may be empty. Lower-cased text is
# parsed as it was, from CASED, where its tokens are the same. What is parsed when this is stopped is in OUT/tree.parsing.
parse_all() {
  local work=$1/tree.parsing text=$1/tok lang=$2 models=$3 cased=$4 lowercase=$5 workers=$6 part=$7 split
  mkdir -p "$work"
  for split in $SPLITS; do
    [[ ! -e $work/$split.$lang.tree ]] || continue
    if [[ $lowercase == 1 ]]; then
      text=$work
      "$PYTHON" -m corpora.tokens.moses_tokenize --lang "$lang" --workers "$workers" "$cased/$split.$lang" "$text/$split.$lang"
    fi
    "$PYTHON" -m corpora.trees.parse --lang "$lang" ${models:+--models "$models"} --workers "$workers" \
      "$text/$split.$lang" "$work/$split.$lang.tree"
  done
  cp "$work"/*.tree "$part"
}

# take_trees FOLDER LANG PART: the trees that the user brings, plain or .gz. The step of the phrases checks them.
take_trees() {
  local folder=$1 lang=$2 part=$3 split file
  for split in $SPLITS; do
    file=$(find_file "$folder" "$split.$lang.tree")
    [[ -e $file ]] || die "$folder has no $split.$lang.tree, nor one with .gz; one bracketing a line of the tokenised text"
    if [[ $file == *.gz ]]; then gzip -dc "$file" >"$part/$split.$lang.tree"; else cp "$file" "$part/"; fi
  done
}

# binarize_phrases OUT TREES LANG WORKERS PART: the phrases of OUT/bpe/SPLIT.LANG by TREES/SPLIT.LANG.tree, into OUT/bin.
binarize_phrases() {
  local out=$1 trees=$2 lang=$3 workers=$4 part=$5
  "$PYTHON" -W ignore -m fairseq_localattn.phrases.binarize "$out/bin" --lang "$lang" --texts "$out/bpe" --trees "$trees" \
    --workers "$workers" | tee "$part/report.txt"
}

# add_phrases OUT LANG PARSER TREE_FILES CASED LOWERCASE(0|1) WORKERS: the steps of --trees LANG.
add_phrases() {
  local out=$1 lang=$2 parser=$3 files=$4 cased=$5 lowercase=$6 workers=$7
  if [[ -n $files ]]; then
    open_trees "$out" "trees=$lang tree-files=$(realpath "$files")"
    step "$out" tree "take the trees of $lang" take_trees "$files" "$lang"
  else
    open_trees "$out" "trees=$lang parser=${parser:+$(realpath "$parser")}"
    step "$out" tree "parse $lang" parse_all "$out" "$lang" "$parser" "$cased" "$lowercase" "$workers"
    rm -rf "$out/tree.parsing"
  fi
  step "$out" phrases "binarise the phrases of $lang" binarize_phrases "$out" "$out/tree" "$lang" "$workers"
}
