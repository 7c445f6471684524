#!/usr/bin/env bash
# Prepares Multi30k task 1, German-English: get, check, tokenise, joint BPE, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/fetch.sh"
. "$PREP_DIR/lib/trees.sh"

usage() {
  cat <<'EOF'
usage: prepare_multi30k.sh OUT [options]
  --local DIR      folder with {train,val,test_2016_flickr}.{de,en}, plain or .gz ($MULTI30K_DIR; without: download)
  --lowercase      lower-case the text, the raw references included
  --bpe N          joint BPE merges (4000)
  --workers N      processes (number of CPU cores)
  --no-checksums   accept other text than the official release; counts and alignment are still checked
  --trees LANG     write the phrases of LANG (de or en) to OUT/bin, from trees by stanza; can be added later
  --parser DIR     stanza's models, such as data-prep/train_parser.py makes (default: those that stanza.download has installed)
  --tree-files DIR no parser: take {train,valid,test}.LANG.tree, plain or .gz, one bracketing a line of OUT/tok ($MULTI30K_TREES)
Splits: train (29,000 pairs), valid = val (1,014), test = test_2016_flickr (1,000). OUT/bin is for fairseq in both directions.
Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

url=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw mirror=${MULTI30K_URL:-}
src=de tgt=en local_dir=${MULTI30K_DIR:-} lowercase=0 bpe=4000
declare -A official=([train]=train [valid]=val [test]=test_2016_flickr)

read_raw() {
  local part=$1 folder=$local_dir cased=$1 split lang name manifest=()
  if [[ -z $folder ]]; then
    for split in $SPLITS; do
      for lang in de en; do obtain "$url/${official[$split]}.$lang.gz"; done
    done
    folder=$(dirname "$file")
  fi
  [[ $checksums == 1 ]] && manifest=(--manifest "$PREP_DIR/multi30k.manifest")
  [[ $lowercase == 1 ]] && cased=$part/cased
  for split in $SPLITS; do
    name=${official[$split]}
    "$PYTHON" -m corpora.text.parallel pair "$(find_file "$folder" "$name.de")" "$(find_file "$folder" "$name.en")" \
      ${manifest[@]+"${manifest[@]}"} --write "$cased/$split.de" "$cased/$split.en"
    if [[ $lowercase == 1 ]]; then
      "$PYTHON" -m corpora.text.parallel pair "$cased/$split.de" "$cased/$split.en" \
        --lowercase --write "$part/$split.de" "$part/$split.en"
    fi
  done
}

parse_arguments "bpe workers" "local trees parser tree-files" "lowercase no-checksums" "$@"
checksums=$((1 - no_checksums))
[[ -z $trees || -n $parser$tree_files ]] || tree_files=${MULTI30K_TREES:-}
check_trees_options de en
need_folder "$local_dir" "{train,val,test_2016_flickr}.{de,en}"
find_python

options="multi30k lowercase=$lowercase bpe=$bpe checksums=$checksums"
# Checked text is equal wherever it comes from; of unchecked text the folder is noted.
[[ $checksums == 1 ]] || options+=" local=$(source_of "$local_dir")"
open_out "$options"
step raw "read and check the raw text" read_raw
cased=""
if [[ $lowercase == 1 ]]; then cased=$out/raw/cased; fi
step tok "tokenise" tokenize_all "${cased:-$out/raw}" "$lowercase"
long_step bpe "joint BPE, $bpe merges" joint_bpe "$out/tok" "$bpe"
step bin "binarise" binarize "$out/bpe"
add_phrases "$cased"
say "ready: $out/bin"
