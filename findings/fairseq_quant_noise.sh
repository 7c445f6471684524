#!/usr/bin/env bash
# fairseq's --quant-noise-pq: what becomes of the weights.
#
# Guess: the noise belongs to a forward pass, as dropout does: blocks are zero in it, and the parameter stays.
# So:    each forward pass in training writes the noise into the parameter: another tenth of the blocks becomes zero, and
#        the others grow by 1 / .9. After 30 passes nearly nothing is left, without any update. With --fp16 or --bf16 the
#        optimizer's own copy in fp32 comes back at each update, and hides it; in fp32 there is no copy.
# In:    fairseq-fixed 0.12.3.1, fairseq/modules/quant_noise.py, _forward_pre_hook
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "passes 1: zero .10, the others times 1.11
passes 10: zero .64, the others times 2.87
passes 30: zero .94, the others times 23.59"
import torch
from fairseq.modules.quant_noise import quant_noise

torch.manual_seed(0)
layer = quant_noise(torch.nn.Linear(64, 64), p=0.1, block_size=8)
before, x = layer.weight.detach().clone(), torch.randn(4, 64)
for passes in range(1, 31):
    with torch.no_grad():
        layer(x)
    if passes in (1, 10, 30):
        left = layer.weight != 0
        zero, growth = 1 - left.float().mean().item(), (layer.weight[left] / before[left]).mean().item()
        print(f"passes {passes}: zero {zero:.2f}, the others times {growth:.2f}".replace(" 0.", " ."))
PYTHON
