#!/usr/bin/env bash
# fairseq's --amp: what the optimizer gets where the loss was scaled.
#
# Guess: gradients are divided by the scale once, whether or not they are clipped.
# So:    clip_grad_norm, which fairseq calls at each update, has torch's scaler divide them for the inner optimizer, and
#        step has it divide them again for the wrapper, which the scaler takes for another one. Adam hides a common
#        factor, but for its epsilon; SGD does not.
# In:    fairseq-fixed 0.12.3.1, fairseq/optim/amp_optimizer.py, AMPOptimizer.clip_grad_norm and step
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "the gradient is 2
after the norm 2, at the update 0.015625"
from functools import partial

import torch

torch.cuda.amp.GradScaler = partial(torch.amp.GradScaler, "cpu")  # the same class; this one is switched off without a GPU
from fairseq.optim.amp_optimizer import AMPOptimizer
from omegaconf import OmegaConf

cfg = OmegaConf.create(
    {
        "common": {"fp16_init_scale": 128, "min_loss_scale": 1e-4},
        "optimizer": {"_name": "sgd", "momentum": 0.0, "weight_decay": 0.0, "lr": [1.0]},
    }
)
parameter = torch.nn.Parameter(torch.ones(3))
optimizer = AMPOptimizer.build_optimizer(cfg, [parameter])
print("the gradient is 2")
optimizer.backward((parameter * 2).sum())
optimizer.clip_grad_norm(0.0)
clipped = parameter.grad[0].item()
optimizer.step()
print(f"after the norm {clipped:g}, at the update {1 - parameter[0].item():g}")
PYTHON
