#!/usr/bin/env bash
# fairseq's --bf16 with an optimizer whose step takes a scale, as FairseqOptimizer.supports_step_with_scale allows.
#
# Guess: each update divides the gradients by the number of words of its own batch.
# So:    FP16Optimizer resets its factor only where a loss scaler is, which bf16 has not: factors multiply from update to
#        update. The memory-efficient optimizer resets it, and fairseq's own Adam, which takes no scale, is right.
# In:    fairseq-fixed 0.12.3.1, fairseq/optim/fp16_optimizer.py, _FP16OptimizerMixin.zero_grad
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "gradients are divided by 10, 100, 1000"
import torch
from fairseq import optim
from omegaconf import OmegaConf


class Scaled(torch.optim.SGD):
    supports_step_with_scale = supports_flat_params = True

    def step(self, closure=None, scale=1.0):
        divisors.append(f"{float(scale):.0f}")


class Wrapper(optim.FairseqOptimizer):
    def __init__(self, cfg, parameters):
        super().__init__(cfg)
        self._optimizer = Scaled(parameters, lr=0.1)


optim.register_optimizer("scaled")(Wrapper)
divisors = []
common = {"bf16": True, "fp16_scale_window": 1}
cfg = OmegaConf.create({"common": common, "optimizer": {"_name": "scaled"}})
parameter = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
optimizer = optim.FP16Optimizer.build_optimizer(cfg, [parameter])
for update in range(3):
    optimizer.backward(parameter.sum())
    optimizer.multiply_grads(1 / 10)
    optimizer.step()
    optimizer.zero_grad()
print("gradients are divided by", ", ".join(divisors))
PYTHON
