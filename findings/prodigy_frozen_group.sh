#!/usr/bin/env bash
# A parameter group of prodigyopt whose learning rate is set to 0.
#
# Guess: lr=0 freezes a group: its weights stay as they are. Prodigy takes no other value beside the common one.
# So:    the moments of the group are no longer updated, but its weights are. They repeat their last update, at the
#        learning rate of the other groups, in each update without end. Weight decay goes on too.
# In:    prodigyopt 1.1.2, prodigy.py, Prodigy.step (the last loop does not ask for group_lr)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 prodigyopt==1.1.2

python - <<'PYTHON' 2>/dev/null | seen "Prodigy, lr=0 after 20 updates: moves by 0.40 in 1, 4.04 in 10, 16.14 in 40
AdamW  , lr=0 after 20 updates: moves by 0.00 in 1, 0.00 in 10, 0.00 in 40
Using decoupled weight decay
Prodigy, lr=0 from the start, decay 0.1: moves by 0.91 in 40 updates
AdamW  , lr=0 from the start, decay 0.1: moves by 0.00 in 40 updates"
import torch
from prodigyopt import Prodigy


def distances(build, frozen_from, updates):
    """Train two layers, the second at lr=0 from an update on, and return how far its weights are from there."""
    torch.manual_seed(1)
    first, second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    optimizer = build([dict(params=first.parameters()), dict(params=second.parameters())])
    x, y = torch.randn(2, 64, 8)
    found = []
    for update in range(updates):
        if update == frozen_from:
            optimizer.param_groups[1]["lr"] = 0.0
            kept = second.weight.detach().clone()
        optimizer.zero_grad()
        (second(first(x).tanh()) - y).square().mean().backward()
        optimizer.step()
        if update >= frozen_from:
            found.append((second.weight - kept).norm().item())
    return found


for name, build in (
    ("Prodigy", lambda groups: Prodigy(groups, d0=1e-3)),
    ("AdamW", lambda groups: torch.optim.AdamW(groups, lr=0.01)),
):
    found = distances(build, 20, 60)
    print(f"{name:7}, lr=0 after 20 updates: moves by {found[0]:.2f} in 1, {found[9]:.2f} in 10, {found[39]:.2f} in 40")
for name, build in (
    ("Prodigy", lambda groups: Prodigy(groups, d0=1e-3, weight_decay=0.1)),
    ("AdamW", lambda groups: torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1)),
):
    found = distances(build, 0, 40)
    print(f"{name:7}, lr=0 from the start, decay 0.1: moves by {found[39]:.2f} in 40 updates")
PYTHON
