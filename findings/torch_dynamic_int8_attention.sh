#!/usr/bin/env bash
# torch.ao.quantization.quantize_dynamic on torch's own Transformer layers.
#
# Guess: all linear layers are int8 afterwards, those of attention among them, and the model runs as before.
# So:    attention stays in fp32 whole, without a word: its first projection is a bare parameter, and its last one a class
#        that is kept out. nn.TransformerEncoderLayer then runs in training mode alone: in evaluation it raises
#        AttributeError, as its fast path takes the feed-forward weights for tensors. A layer that stands at two places of
#        a model becomes two.
# In:    torch 2.13.0, torch/nn/modules/activation.py, MultiheadAttention.__init__; transformer.py,
#        TransformerEncoderLayer.forward; torch/ao/quantization/quantize.py, _convert
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' 2>/dev/null | seen "attention, int8 - fp32: 0
encoder layer, training: runs
encoder layer, evaluation: AttributeError
a layer at two places: two layers"
import torch
from torch import nn
from torch.ao.quantization import quantize_dynamic

torch.manual_seed(0)
x = torch.randn(2, 5, 32)
attention = nn.MultiheadAttention(32, 4, batch_first=True)
int8 = quantize_dynamic(attention, {nn.Linear}, dtype=torch.qint8)
print(f"attention, int8 - fp32: {(int8(x, x, x)[0] - attention(x, x, x)[0]).abs().max():g}")

layer = quantize_dynamic(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), {nn.Linear}, dtype=torch.qint8)
for mode in ("training", "evaluation"):
    try:
        with torch.no_grad():
            layer.train(mode == "training")(x)
        print(f"encoder layer, {mode}: runs")
    except AttributeError:
        print(f"encoder layer, {mode}: AttributeError")

shared = nn.Linear(8, 8)
first, second = quantize_dynamic(nn.Sequential(shared, shared), {nn.Linear}, dtype=torch.qint8)
print("a layer at two places:", "one layer" if first is second else "two layers")
PYTHON
