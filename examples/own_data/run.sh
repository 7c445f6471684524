#!/usr/bin/env bash
# From raw text files to translations of raw sentences: prepare_parallel.sh, fairseq-train, fairseq-interactive (docs/own-data.md).
#
#   source .venv/bin/activate
#   examples/own_data/run.sh OUT
#
#   RAW             folder with train.{SOURCE,TARGET}, a sentence a line, and {valid,test}.… if there are any; else some of the
#                   training text is held out (default: generated text, in OUT/text)
#   SOURCE, TARGET  languages (de, en)
#   ARCH            architecture (transformer_csan_tiny; for real text transformer_csan_small or larger)
#   MERGES          of the joint BPE (200; for real text some thousands)
#   UPDATES         of the training (300)
#   DEVICE          flags of the device (--cpu; on a GPU --bf16 or --fp16)
set -euo pipefail

[[ $# -eq 1 && $1 != -* ]] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0"; exit 2; }
command -v fairseq-train >/dev/null || { echo "run.sh: error: no fairseq-train: source .venv/bin/activate first" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$1
src=${SOURCE:-de} tgt=${TARGET:-en}
read -ra device <<<"${DEVICE:---cpu}"
plugin=$(python -m fairseq_localattn --path)

# 1. Raw text.
raw=${RAW:-$out/text}
[[ -n ${RAW:-} ]] || python "$here/make_text.py" "$raw"

# 2. Moses tokens, joint BPE, dictionary and binary files. Stopped and started again, it continues, as does the training.
options=(--source "$src" --target "$tgt" --train "$raw/train" --bpe "${MERGES:-200}")
for split in valid test; do
  if [[ -e $raw/$split.$src || -e $raw/$split.$src.gz ]]; then options+=("--$split" "$raw/$split"); fi
done
PYTHON=python "$here/../../data-prep/prepare_parallel.sh" "$out/data" "${options[@]}"

# 3. Training.
fairseq-train "$out/data/bin" --user-dir "$plugin" --arch "${ARCH:-transformer_csan_tiny}" --share-all-embeddings "${device[@]}" \
  --task translation --source-lang "$src" --target-lang "$tgt" --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
  --optimizer adam --lr 0.004 --lr-scheduler inverse_sqrt --warmup-updates 100 --dropout 0.1 --max-tokens 1000 \
  --max-update "${UPDATES:-300}" --no-epoch-checkpoints --num-workers 0 --save-dir "$out/model"

# 4. Translation of raw sentences: fairseq tokenises, splits into subwords, and joins again what it has written.
head -n 5 "$out/data/raw/test.$src" >"$out/sentences.$src"
fairseq-interactive "$out/data/bin" --user-dir "$plugin" --path "$out/model/checkpoint_last.pt" --input "$out/sentences.$src" \
  --task translation --source-lang "$src" --target-lang "$tgt" --tokenizer moses --bpe subword_nmt --bpe-codes "$out/data/bpe/codes" \
  --beam 5 "${device[@]}" >"$out/interactive.txt"
paste "$out/sentences.$src" <(grep '^D-' "$out/interactive.txt" | cut -f 3) | tee "$out/translations.tsv"
