#!/usr/bin/env bash
# What fairseq's --weight-decay does with adam and adamax, beside those in torch.
#
# Guess: adam and adamax add it to the gradient, as torch.optim.Adam and Adamax do, and as their docstrings say (L2 penalty).
# So:    they shrink the weights themselves, as torch.optim.AdamW does. fairseq has no Adam that does what torch's does.
# In:    fairseq-fixed 0.12.3.1, fairseq/optim/adam.py and adamax.py, step; torch 2.13.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "a weight of 10 with gradient 1 after one update, lr .1, decay .5
        fairseq   torch
adam    9.40      9.90
adamw   -         9.40
adamax  9.40      9.90"
import torch
from fairseq.optim.adam import Adam
from fairseq.optim.adamax import Adamax


def after(kind):
    if kind is None:
        return "-"
    weight = torch.nn.Parameter(torch.tensor([10.0]))
    optimizer = kind([weight], lr=0.1, weight_decay=0.5)
    weight.grad = torch.tensor([1.0])
    optimizer.step()
    return f"{weight.item():.2f}"


print("a weight of 10 with gradient 1 after one update, lr .1, decay .5")
print("        fairseq   torch")
for name, ours, theirs in (
    ("adam", Adam, torch.optim.Adam),
    ("adamw", None, torch.optim.AdamW),
    ("adamax", Adamax, torch.optim.Adamax),
):
    print(f"{name:7} {after(ours):9} {after(theirs)}")
PYTHON
