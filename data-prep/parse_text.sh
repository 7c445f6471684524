#!/usr/bin/env bash
# From raw text to constituency trees: check, tokenise, parse. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/trees.sh"

usage() {
  cat <<'EOT'
usage: parse_text.sh OUT --train FILE --valid FILE --test FILE [options]
  --train FILE, --valid FILE, --test FILE   raw text, a sentence a line, plain or .gz
  --lang LANG     its language (en)
  --parser DIR    stanza's models, such as data-prep/train_parser.py makes (default: those that stanza.download has installed)
  --workers N     processes (number of CPU cores)
OUT/trees/{train,valid,test}.mrg: a bracketing a line over the Moses tokens of OUT/tok, an empty line where the parser found none.
It is what prepare_probing.sh and $PROBING_TREES take. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOT
}

STEPS="raw tok trees"
train="" valid="" test="" lang=en

read_raw() {
  local part=$1 split
  for split in $SPLITS; do "$PYTHON" -m corpora.text.streams "$part/$split.$lang" "${!split}"; done
}

tokenize_texts() {
  local part=$1 split
  for split in $SPLITS; do tokenize_split "$out/raw" "$split" "$lang" "$part"; done
}

parse_texts() {
  local part=$1 split
  parse_all "" "$part"
  for split in $SPLITS; do mv "$part/$split.$lang.tree" "$part/$split.mrg"; done
}

parse_arguments "workers" "train valid test lang parser" "" "$@"
for split in $SPLITS; do
  [[ -n ${!split} ]] || die "--$split is missing: give the text of all three splits (see --help)"
  [[ -e ${!split} || -d $out/raw ]] || die "no file ${!split}: give the text with --$split FILE"
done
trees=$lang
check_trees_options "$lang"
find_python

options="text $lang parser=${parser:+$(realpath "$parser")}"
for split in $SPLITS; do options+=" $split=$(realpath -m "${!split}")"; done
open_out "$options"
step raw "read and check the text" read_raw
long_step tok "tokenise" tokenize_texts
step trees "parse" parse_texts
rm -rf "$out/tree.parsing"
say "ready: $out/trees"
