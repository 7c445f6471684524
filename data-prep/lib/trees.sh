# Shell functions for phrases that come from constituency trees; source it after lib/base.sh.
#
#   OUT/tree     {train,valid,test}.LANG.tree: a bracketing for each line of OUT/tok, an empty line where there is none
#   OUT/phrases  report.txt on the phrases and tags of LANG's text, which are written to OUT/bin
#
# These two steps have options of their own (OUT/trees.txt), so that they can be added to prepared data. The command line
# sets trees (a language), parser and tree_files.

trees="" parser="" tree_files="" subwords=subword_nmt # how OUT/bpe splits words, for fairseq_localattn.phrases.binarize

# check_trees_options LANGUAGE…: --trees, --parser and --tree-files must go together.
check_trees_options() {
  local files=$tree_files
  if [[ -z $trees ]]; then
    [[ -z $parser$files ]] || die "--parser and --tree-files need --trees LANGUAGE, the language of the trees"
    return 0
  fi
  [[ " $* " == *" $trees "* ]] || die "--trees $trees: no such language here, there is: $*"
  [[ -z $parser || -z $files ]] || die "--parser or --tree-files, please, not both"
  [[ -z $parser || -d $parser ]] || die "--parser $parser: no such folder; train models with data-prep/train_parser.py"
  [[ -z $files || -d $files ]] || die "--tree-files $files: no such folder"
}

# open_trees OPTIONS: refuse options other than those of complete trees.
open_trees() {
  local options=$1 file=$out/trees.txt
  # Given trees that the step of the phrases refused can be given again.
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

# parse_all CASED PART: parse OUT/tok. If OUT/tok is lower-cased, CASED is the folder of its cased text, which is parsed
# instead; its tokens are equal. CASED may be empty. OUT/tree.parsing has what a stopped run has parsed.
parse_all() {
  local work=$out/tree.parsing text=$out/tok lang=$trees cased=$1 part=$2 split
  mkdir -p "$work"
  for split in $SPLITS; do
    [[ ! -e $work/$split.$lang.tree ]] || continue
    if [[ -n $cased ]]; then
      text=$work
      tokenize_split "$cased" "$split" "$lang" "$text"
    fi
    "$PYTHON" -m corpora.trees.parse --lang "$lang" ${parser:+--models "$parser"} --workers "$workers" \
      "$text/$split.$lang" "$work/$split.$lang.tree"
  done
  cp "$work"/*.tree "$part"
}

# take_trees PART: the trees of --tree-files, plain or .gz. The step of the phrases checks them.
take_trees() {
  local folder=$tree_files lang=$trees part=$1 split file
  for split in $SPLITS; do
    file=$(find_file "$folder" "$split.$lang.tree")
    [[ -e $file ]] || die "$folder has no $split.$lang.tree, nor one with .gz; one bracketing a line of the tokenised text"
    if [[ $file == *.gz ]]; then gzip -dc "$file" >"$part/$split.$lang.tree"; else cp "$file" "$part/"; fi
  done
}

# binarize_phrases FOLDER PART: the phrases of OUT/bpe/SPLIT.LANG from FOLDER/SPLIT.LANG.tree, in OUT/bin.
binarize_phrases() {
  "$PYTHON" -W ignore -m fairseq_localattn.phrases.binarize "$out/bin" --lang "$trees" --texts "$out/bpe" --trees "$1" \
    --subwords "$subwords" --workers "$workers" | tee "$2/report.txt"
}

# add_phrases [CASED]: the steps of --trees, if it is given; CASED as in parse_all.
add_phrases() {
  [[ -n $trees ]] || return 0
  if [[ -n $tree_files ]]; then
    open_trees "trees=$trees tree-files=$(realpath "$tree_files")"
    step tree "take the trees of $trees" take_trees
  else
    open_trees "trees=$trees parser=${parser:+$(realpath "$parser")}"
    step tree "parse $trees" parse_all "${1:-}"
    rm -rf "$out/tree.parsing"
  fi
  step phrases "binarise the phrases of $trees" binarize_phrases "$out/tree"
}
