#!/usr/bin/env bash
# Ignite's ReduceLROnPlateauScheduler with min_lr, after 20 validations without a gain.
#
# Guess: learning rates end at min_lr, as with torch's ReduceLROnPlateau, which it wraps and to which it passes options.
# So:    min_lr has an effect for the first group of parameters alone, and only with param_group_index=0. Without an
#        index it is replaced by 0. With another index the minimum is stored for that group and read for the first.
#        There is no warning. The learning rate halves on until the model stands still.
# In:    pytorch-ignite 0.5.5, ignite/handlers/param_scheduler.py, ReduceLROnPlateauScheduler.__init__ and _reduce_lr
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 pytorch-ignite==0.5.5

python - <<'PYTHON' 2>/dev/null | seen "min_lr 1e-04 for   learning rates by torch   by Ignite
one group          1e-04                     2e-06
both groups        1e-04 1e-04               2e-06 2e-06
group 0 of 2       1e-04 1e-03               1e-04 1e-03
group 1 of 2       1e-03 1e-04               1e-03 2e-06"
import torch
from ignite.engine import Engine
from ignite.handlers.param_scheduler import ReduceLROnPlateauScheduler

OPTIONS = dict(factor=0.5, patience=1)


def optimizer(groups):
    return torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(groups)], lr=1e-3)


def by_torch(groups, index):
    """A group that is not meant keeps its learning rate, as its minimum is the one that it begins with."""
    sgd = optimizer(groups)
    minima = [1e-4 if index in (None, i) else 1e-3 for i in range(groups)]
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(sgd, min_lr=minima, **OPTIONS)
    for _ in range(20):
        scheduler.step(1.0)
    return sgd


def by_ignite(groups, index):
    sgd = optimizer(groups)
    scheduler = ReduceLROnPlateauScheduler(sgd, "loss", param_group_index=index, min_lr=1e-4, **OPTIONS)
    evaluator = Engine(lambda engine, batch: None)
    evaluator.state.metrics["loss"] = 1.0
    for _ in range(20):
        scheduler(evaluator)
    return sgd


def rates(sgd):
    return " ".join(f"{group['lr']:.0e}" for group in sgd.param_groups)


print("min_lr 1e-04 for   learning rates by torch   by Ignite")
cases = (("one group", 1, None), ("both groups", 2, None), ("group 0 of 2", 2, 0), ("group 1 of 2", 2, 1))
for name, groups, index in cases:
    print(f"{name:18} {rates(by_torch(groups, index)):25} {rates(by_ignite(groups, index))}")
PYTHON
