#!/usr/bin/env bash
# Prepares parallel text of any two languages: check, tokenise, clean, divide, subwords, binarise. Run again, it continues or
# does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/bitext.sh"
. "$PREP_DIR/lib/trees.sh"
. "$PREP_DIR/lib/parallel.sh"

usage() {
  cat <<'EOT'
usage: prepare_parallel.sh OUT --source LANG --target LANG --train PREFIX [options]
  --source LANG, --target LANG  the endings of the files, codes of languages such as de and en
  --train PREFIX    the text: PREFIX.LANG, a sentence a line, plain or .gz; pairs with an empty side are left out
  --valid PREFIX, --test PREFIX  validation and test text, complete as it is; without: pairs of the training text
  --held-out N      about so many for each of them, at most a tenth (1000), taken at even distances
  --tokenizer NAME  moses, as fairseq-interactive --tokenizer moses does; or none (moses; with --pieces none)
  --bpe N           BPE (subword-nmt) with N merges (10000)
  --pieces N        instead: SentencePiece with N pieces
  --separate        subwords and a dictionary for each language; else both languages share them
  --max N           no training sentence with more tokens (250)
  --ratio X         no training pair with a side X times as long as the other, in tokens (default: any)
  --min-correlation X  of the lengths of the two sides, by blocks of lines (0.3; -1: take the text as it is)
  --trees LANG, --parser DIR, --tree-files DIR   phrases, as in prepare_multi30k.sh --help; trees are over OUT/tok
  --workers N       processes (number of CPU cores)
OUT/bin is for fairseq in both directions. OUT/bpe has the subwords' model: codes or sentencepiece.model, with --separate
LANG.codes or LANG.model. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOT
}

src="" tgt="" source="" target="" train="" valid="" test="" held_out=1000 tokenizer="" bpe="" pieces="" separate=0 max=250 ratio=""

parse_arguments "held-out bpe pieces max workers" \
  "source target train valid test tokenizer ratio min-correlation trees parser tree-files" "separate" "$@"
check_parallel_options
find_python

options="parallel $src-$tgt tokenizer=$tokenizer $kind=$size sides=$sides max=$max ratio=$ratio held-out=$held_out"
texts=()
for split in $SPLITS; do
  options+=" $split=${!split:+$(realpath -m "${!split}")}"
  [[ -z ${!split} ]] || texts+=("$(find_prefixed "${!split}" "$src")" "$(find_prefixed "${!split}" "$tgt")")
done
open_out "$options" "${texts[@]}"
if [[ ! -d $out/tok || ! -d $out/raw ]]; then
  step text "read and check the text" read_parallel
  long_step tokens "tokenise" tokenize_parallel
  step tok "clean and divide the tokens" divide_parallel "$out/tokens"
  step raw "clean and divide the text" divide_parallel "$out/text"
fi
rm -rf "$out/text" "$out/tokens"
long_step bpe "subwords, $size $kind" make_subwords "$kind" "$sides" "$out/tok" "$size"
step bin "binarise" binarize "$out/bpe" ${dictionaries[@]+"${dictionaries[@]}"}
add_phrases
say "ready: $out/bin"
