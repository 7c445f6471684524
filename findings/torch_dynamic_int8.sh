#!/usr/bin/env bash
# torch.ao.quantization.quantize_dynamic: whether a row's result depends on the other rows of the batch.
#
# Guess: the scale is found as the data come, a scale for each row: a sentence translates alike alone and in a batch.
# So:    all rows share one scale, that of the largest value. Beside a row that is 50 times as large, the error of a row is
#        some 40 times as large as alone. Padding and neighbours so change what a sentence gets.
# In:    torch 2.13.0, quantized::linear_dynamic (aten/src/ATen/native/quantized/cpu/qlinear_dynamic.cpp)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' 2>/dev/null | seen "alone: error below .05
beside a row 50 times as large: error above .3"
import torch
from torch.ao.quantization import quantize_dynamic

torch.manual_seed(0)
layer = torch.nn.Linear(64, 64)
int8 = quantize_dynamic(torch.nn.Sequential(layer), {torch.nn.Linear}, dtype=torch.qint8)
row, large = torch.randn(1, 64), 50 * torch.randn(1, 64)


def error(x, of=slice(None)):
    with torch.no_grad():
        return (int8(x) - layer(x))[of].abs().max().item()


print("alone: error", "below .05" if error(row) < 0.05 else "larger")
print("beside a row 50 times as large: error", "above .3" if error(torch.cat([row, large]), 0) > 0.3 else "smaller")
PYTHON
