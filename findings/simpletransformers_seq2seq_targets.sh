#!/usr/bin/env bash
# Seq2SeqModel of Simple Transformers with an encoder and a decoder of BERT, trained on random targets.
#
# Guess: the loss of new targets stays above that of guessing. No model can predict random words.
# So:    it goes to zero. The decoder's input is the target itself, not moved by one word: it sees the word that it
#        predicts, and learns to copy it. Translations are then useless.
#        transformers moved the labels in the loss, and since 4.12 does not. It gives its general warning, always.
#        The same model with labels alone stays at the loss of guessing.
# In:    simpletransformers 0.70.8, seq2seq/seq2seq_model.py, Seq2SeqModel._get_inputs_dict; transformers 5.24.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 datasets==5.2.0 simpletransformers==0.70.8

python - <<'PYTHON' 2>/dev/null | seen "loss of guessing        2.08
Seq2SeqModel            below 0.1
with labels alone       above 2"
import math
import random
from pathlib import Path

import pandas
import torch
from simpletransformers.seq2seq import Seq2SeqModel
from transformers import BertConfig, BertModel, BertTokenizerFast

# 16 words. A line has six of them, [CLS] and [SEP]: the loss of guessing is 6 / 8 of log(16).
words = [f"w{i}" for i in range(16)]
Path("bert").mkdir()
Path("vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
BertTokenizerFast("vocab.txt").save_pretrained("bert")
torch.manual_seed(1)
BertModel(BertConfig(
    vocab_size=21, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
    max_position_embeddings=16, pad_token_id=0)).save_pretrained("bert")
random.seed(1)
train, test = (
    pandas.DataFrame({name: [" ".join(random.choices(words, k=6)) for _ in range(n)]
                      for name in ("input_text", "target_text")}) for n in (1024, 64))


args = dict(
    num_train_epochs=10, learning_rate=3e-3, scheduler="constant_schedule", train_batch_size=32, max_seq_length=8,
    manual_seed=1, no_save=True, no_cache=True, overwrite_output_dir=True, silent=True, use_multiprocessing=False,
    use_multiprocessing_for_evaluation=False, dataloader_num_workers=0)


class Labels(Seq2SeqModel):
    def _get_inputs_dict(self, batch):
        inputs = super()._get_inputs_dict(batch)
        return {name: inputs[name] for name in ("input_ids", "labels")}


print(f"loss of guessing        {math.log(16) * 6 / 8:.2f}")
for name, kind in (("Seq2SeqModel", Seq2SeqModel), ("with labels alone", Labels)):
    model = kind("bert", "bert", "bert", args=args, use_cuda=False)
    model.model.config.pad_token_id, model.model.config.decoder_start_token_id = 0, 0
    model.train_model(train, show_running_loss=False)
    loss = model.eval_model(test)["eval_loss"]
    print(f"{name:23}", "below 0.1" if loss < .1 else "above 2" if loss > 2 else f"{loss:.2f}")
PYTHON
