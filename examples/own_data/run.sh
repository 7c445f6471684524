#!/usr/bin/env bash
# From raw text files to translations of raw sentences: tokenise, BPE, fairseq-preprocess, fairseq-train, fairseq-interactive.
#
#   source .venv/bin/activate
#   examples/own_data/run.sh OUT
#
#   RAW             folder with {train,valid,test}.{SOURCE,TARGET}, a sentence a line (default: generated text, in OUT/raw)
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
raw=${RAW:-$out/raw}
[[ -n ${RAW:-} ]] || python "$here/make_text.py" "$raw"

# 2. Tokens, by Moses' rules. (Chinese or Japanese: another tokeniser, or SentencePiece on the raw text.)
mkdir -p "$out/tok" "$out/bpe"
for split in train valid test; do
  for lang in "$src" "$tgt"; do
    sacremoses -l "$lang" -q tokenize <"$raw/$split.$lang" >"$out/tok/$split.$lang"
  done
done

# 3. Subwords, learned jointly on both sides of the training text.
cat "$out/tok/train.$src" "$out/tok/train.$tgt" | subword-nmt learn-bpe -s "${MERGES:-200}" >"$out/codes"
for split in train valid test; do
  for lang in "$src" "$tgt"; do
    subword-nmt apply-bpe -c "$out/codes" <"$out/tok/$split.$lang" >"$out/bpe/$split.$lang"
  done
done

# 4. Dictionary and binary files.
rm -rf "$out/bin"
fairseq-preprocess --source-lang "$src" --target-lang "$tgt" --joined-dictionary --destdir "$out/bin" \
  --trainpref "$out/bpe/train" --validpref "$out/bpe/valid" --testpref "$out/bpe/test"

# 5. Training. Stopped and started again, it continues.
fairseq-train "$out/bin" --user-dir "$plugin" --arch "${ARCH:-transformer_csan_tiny}" --share-all-embeddings "${device[@]}" \
  --task translation --source-lang "$src" --target-lang "$tgt" --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
  --optimizer adam --lr 0.004 --lr-scheduler inverse_sqrt --warmup-updates 100 --dropout 0.1 --max-tokens 1000 \
  --max-update "${UPDATES:-300}" --no-epoch-checkpoints --num-workers 0 --save-dir "$out/model"

# 6. Translation of raw sentences: fairseq tokenises, splits into subwords, and joins again what it has written.
head -n 5 "$raw/test.$src" | fairseq-interactive "$out/bin" --user-dir "$plugin" --path "$out/model/checkpoint_last.pt" \
  --task translation --source-lang "$src" --target-lang "$tgt" --tokenizer moses --bpe subword_nmt --bpe-codes "$out/codes" \
  --beam 5 "${device[@]}" >"$out/interactive.txt"
paste <(head -n 5 "$raw/test.$src") <(grep '^D-' "$out/interactive.txt" | cut -f 3) | tee "$out/translations.tsv"
