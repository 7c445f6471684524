#!/usr/bin/env bash
# Prepares NIST Chinese-English: read, check, part into words, BPE, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/asian.sh"
. "$PREP_DIR/lib/trees.sh"

usage() {
  cat <<'EOF'
usage: prepare_nist.sh OUT --local DIR [options]
  --local DIR           the licensed text ($NIST_DIR): see below; there is no download
  --encoding NAME       of its files (utf-8; older LDC corpora: gb18030, big5)
  --min-correlation X   of the lengths of the two sides of the training text, by blocks of lines; -1: not checked (0.3)
  --segmented           the Chinese is in words already, separated by spaces
  --bpe N               merges of the BPE of both languages (32000)
  --joined-dictionary   one dictionary for both languages; else there are two
  --workers N           processes (number of CPU cores)
  --trees zh            write the phrases of the Chinese to OUT/bin, from trees by stanza; can be added later
  --parser DIR          stanza's models (default: those that stanza.download has installed)
  --tree-files DIR      no parser: take {train,valid,test,test1,test2,test3}.zh.tree, plain or .gz, for the lines of OUT/tok
DIR has test sets with four references each, as mt02.zh with mt02.en.ref0 to mt02.en.ref3, or as NIST's .sgm or .xml below
DIR (mt02_chinese_evlset_v0.sgm, …-ref.sgm: LDC2010T10, T11, T12, T14, T17); and training text, as train.zh and train.en or
as train/*.zh and train/*.en (.gz, .sgm and .xml too). The 1.25M pairs of the literature are LDC2002E18, LDC2003E07,
LDC2003E14, the Hansards of LDC2004T07, LDC2004T08 and LDC2005T06. Splits: valid MT02, test MT03, test1 MT04, test2 MT05,
test3 MT06; references are OUT/raw/test.en.ref0 to .ref3, and in OUT/tok, and OUT/raw/test.en is the first one. Case is
kept, as in Hao et al. 2019. Words are found by jieba (pip install -e '.[zh]'): trees are over words.
Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

SPLITS="train valid test test1 test2 test3"
src=zh tgt=en local_dir=${NIST_DIR:-} encoding=utf-8 min_correlation=0.3 bpe=32000

parse_arguments "bpe workers" "local encoding min-correlation trees parser tree-files" "segmented joined-dictionary" "$@"
need_decimal --min-correlation "$min_correlation" -1
check_trees_options zh
[[ -n $local_dir ]] || die "no NIST folder: give the licensed text with --local DIR (see --help)"
need_folder "$local_dir" "the licensed text (see --help)"
find_python

options="nist encoding=$encoding segmented=$segmented bpe=$bpe joined=$joined_dictionary local=$(realpath -m "${local_dir:-.}")"
open_out "$options"
in_words 0 0 "$PYTHON" -m corpora.sources.nist --encoding "$encoding" \
  --min-correlation "$min_correlation" "$local_dir"
bpe_and_binarize
add_phrases
say "ready: $out/bin"
