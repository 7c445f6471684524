#!/usr/bin/env bash
# Prepares the probing tasks from constituency trees: labels, BPE, binarise, phrases. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"

usage() {
  cat <<'EOT'
usage: prepare_probing.sh OUT --train FILE --valid FILE --test FILE [options]
  --train FILE, --valid FILE, --test FILE   constituency trees, a line each or indented over several, plain or .gz
  --lang LANG     language of the trees (en)
  --codes FILE    BPE codes of the encoder that is to be probed, with --dict
  --dict FILE     its dictionary; without both: BPE learned from the training sentences
  --bpe N         merges to learn (4000)
  --escape        Moses' entities (&apos;s) in the text, for an encoder that was trained on such
  --lowercase     lower-case the text, for an encoder that was trained on such
  --levels N      levels of phrases (3)
  --skip-failed   leave out what is no tree, such as (()) for a sentence that was not parsed
  --workers N     processes (number of CPU cores)
OUT/raw: the words of the trees (in the characters of Moses' normalisation), the trees, and {split}.TASK.labels. OUT/bin: for
python -m fairseq_localattn.analysis.probing.
Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOT
}

STEPS="raw bpe bin"
train="" valid="" test="" lang=en codes="" dict="" bpe=4000 escape=0 lowercase=0 levels=3 skip_failed=0

label_trees() {
  local part=$1 options=()
  if [[ $escape == 1 ]]; then options+=(--escape); fi
  if [[ $lowercase == 1 ]]; then options+=(--lowercase); fi
  if [[ $skip_failed == 1 ]]; then options+=(--skip-failed); fi
  "$PYTHON" -W ignore -m corpora.sources.probing "$part" --lang "$lang" --train "$train" --valid "$valid" --test "$test" \
    ${options[@]+"${options[@]}"}
}

split_words() {
  local part=$1 split
  if [[ -n $codes ]]; then
    cp "$codes" "$part/codes"
  else
    learn_codes "$bpe" "$part/codes" "$out/raw/train.$lang"
  fi
  for split in $SPLITS; do apply_codes "$part/codes" "$out/raw/$split.$lang" "$part/$split.$lang"; done
}

# count_subwords: print the number of subwords of each word, line by line; all but the last one of a word end in @@.
count_subwords() {
  awk '{ n = 0; counts = ""
         for (i = 1; i <= NF; i++) { n++; if ($i !~ /@@$/) { counts = counts " " n; n = 0 } }
         print substr(counts, 2) }'
}

# fairseq names the files by both languages, with None for the missing one: train.en-None.en.
binarize_probing() {
  local part=$1 given=() split
  if [[ -n $dict ]]; then given+=(--srcdict "$dict"); fi
  preprocess "$part" --only-source --source-lang "$lang" ${given[@]+"${given[@]}"} \
    --trainpref "$out/bpe/train" --validpref "$out/bpe/valid" --testpref "$out/bpe/test"
  for split in $SPLITS; do
    check_sentences "$out/bpe/$split.$lang" "$part"
    say "$split: $(sed -nE "s|.*/$split\.$lang: ([0-9]+ sents.*)|\1|p" "$part/console.log")"
    cp "$out/raw/$split."*.labels "$part"
    count_subwords <"$out/bpe/$split.$lang" >"$part/$split.words"
  done
  rm "$part/console.log" # preprocess.log has the same content
  "$PYTHON" -m fairseq_localattn.phrases.binarize "$part" --lang "$lang" --texts "$out/bpe" --trees "$out/raw" \
    --levels "$levels" --workers "$workers"
}

parse_arguments "bpe levels workers" "train valid test lang codes dict" "escape lowercase skip-failed" "$@"
for option in train valid test; do
  [[ -n ${!option} ]] || die "--$option is missing: give the trees of all three splits (see --help)"
  [[ -e ${!option} || -d $out/raw ]] || die "no file ${!option}: give the trees with --$option FILE"
done
[[ ${codes:+given} == "${dict:+given}" ]] || die "--codes and --dict belong together: both are the encoder's"
for option in codes dict; do
  [[ -z ${!option} || -e ${!option} || -d $out/bin ]] || die "no file ${!option}: give the encoder's with --$option FILE"
done
if [[ -n $dict && $escape == 0 && ! -d $out/bin ]] && grep -qE '^&(apos|quot|amp)' "$dict"; then
  die "$dict has Moses' entities: $(grep -oEm 1 '^&\S+' "$dict"); give --escape, so that the text has them too"
fi
find_python

options="probing $lang codes=${codes:+$(realpath -m "$codes")} dict=${dict:+$(realpath -m "$dict")} bpe=$bpe levels=$levels"
options+=" escape=$escape lowercase=$lowercase"
if [[ $skip_failed == 1 ]]; then options+=" skip-failed"; fi
for option in train valid test; do options+=" $option=$(realpath -m "${!option}")"; done
open_out "$options"
step raw "read the trees, write text and labels" label_trees
step bpe "split words into subwords" split_words
step bin "binarise" binarize_probing
say "ready: $out/bin"
