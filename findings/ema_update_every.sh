#!/usr/bin/env bash
# Averages of weights by ema-pytorch's KarrasEMA and PostHocEMA, updated at every step, every tenth or every hundredth.
#
# Guess: update_every saves time, and the average stays about the same. Its width, sigma_rel, is a share of the training
#        (Karras et al. 2024): with 0.05 the average lies at 95 % of the training.
# So:    an update is weighted as one step, whatever the number of steps since the last one. The average so lies far too
#        early: with every hundredth step, KarrasEMA's default, at 15 %. The model is mostly its own untrained start.
#        PostHocEMA makes a new average of such ones, and takes them for right ones: with every tenth step, as in its
#        README, it is wrong as well. There is no warning. With update_every=1 all are right.
# In:    ema-pytorch 0.8.3, ema_pytorch/post_hoc_ema.py, KarrasEMA.beta and update, PostHocEMA.synthesize_ema_model
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 ema-pytorch==0.8.3

python - <<'PYTHON' 2>/dev/null | seen "sigma_rel        0.05   0.10   0.28   0.15, post hoc
by definition    0.95   0.89   0.54   0.82
update_every 1   0.95   0.89   0.54   0.82
update_every 10  0.64   0.44   0.10   0.24
update_every 100 0.15   0.07   0.01   0.04"
import torch
from ema_pytorch import KarrasEMA, PostHocEMA

STEPS = 5000


def by_definition(sigma):
    """Step t of the training weighs t to the power gamma. A larger gamma gives a smaller width, so halving finds it."""
    low, high = 0.0, 1000.0
    for _ in range(100):
        gamma = (low + high) / 2
        width = ((gamma + 1) / ((gamma + 2) ** 2 * (gamma + 3))) ** 0.5
        low, high = (gamma, high) if width > sigma else (low, gamma)
    steps = torch.arange(1, STEPS + 1, dtype=torch.float64) / STEPS
    return float((steps**gamma * steps).sum() / (steps**gamma).sum())


def row(name, values):
    print(f"{name:16}", "   ".join(f"{value:.2f}" for value in values))


print("sigma_rel        0.05   0.10   0.28   0.15, post hoc")
row("by definition", [by_definition(sigma) for sigma in (0.05, 0.1, 0.28, 0.15)])
for every in (1, 10, 100):
    # The model's one weight is the share of the training that is done: its average says where the average lies.
    model = torch.nn.Linear(1, 1, bias=False)
    averages = [KarrasEMA(model, sigma_rel=sigma, update_every=every) for sigma in (0.05, 0.1, 0.28)]
    options = {"checkpoint_every_num_steps": 500, "checkpoint_folder": f"checkpoints-{every}"}
    post_hoc = PostHocEMA(model, sigma_rels=(0.05, 0.28), update_every=every, **options)
    for step in range(1, STEPS + 1):
        torch.nn.init.constant_(model.weight, step / STEPS)
        for average in (*averages, post_hoc):
            average.update()
    averages.append(post_hoc.synthesize_ema_model(sigma_rel=0.15))
    row(f"update_every {every}", [float(average.ema_model.weight.detach()) for average in averages])
PYTHON
