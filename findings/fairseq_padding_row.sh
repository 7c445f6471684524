#!/usr/bin/env bash
# A batch of fairseq's Transformer with a source that is all padding, as a batch that is filled up to a fixed size has.
#
# Guess: that row adds nothing: its targets are padding, and the loss leaves padding out.
# So:    the loss is right, but gradients of the whole model are NaN: the row's attention divides 0 by 0, and 0 · NaN is
#        NaN on the way back.
# In:    fairseq-fixed 0.12.3.1, fairseq/modules/multihead_attention.py (torch's multi_head_attention_forward); torch 2.13.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "two sentences: the loss is finite, 0 parameters have NaN in their gradients
and a row of padding: the loss is finite, some parameters have NaN in their gradients"
import logging
from argparse import Namespace
from types import SimpleNamespace

import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, tiny_architecture

logging.disable(logging.CRITICAL)
torch.manual_seed(0)
words = Dictionary()
for word in "abcdefgh":
    words.add_symbol(word)
task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
args = Namespace(max_source_positions=64, max_target_positions=64)
tiny_architecture(args)
model = TransformerModel.build_model(args, task).train()
criterion = CrossEntropyCriterion(task, sentence_avg=False)


def report(name, rows):
    source = torch.tensor(rows)
    sample = {
        "net_input": {
            "src_tokens": source,
            "src_lengths": source.ne(words.pad()).sum(1),
            "prev_output_tokens": source,
        },
        "target": source,
        "ntokens": int(source.ne(words.pad()).sum()),
    }
    model.zero_grad()
    loss = criterion(model, sample)[0]
    loss.backward()
    wrong = sum(1 for each in model.parameters() if each.grad is not None and each.grad.isnan().any())
    finite = "finite" if loss.isfinite() else "not finite"
    print(f"{name}: the loss is {finite}, {'some' if wrong else 0} parameters have NaN in their gradients")


eos, pad = words.eos(), words.pad()
sentences = [[4, 5, 6, eos], [pad, 7, 8, eos]]
report("two sentences", sentences)
report("and a row of padding", [*sentences, [pad] * 4])
PYTHON
