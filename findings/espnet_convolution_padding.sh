#!/usr/bin/env bash
# ESPnet's encoder with lightweight or dynamic convolutions (Wu et al. 2019): a sentence alone, and padded in a batch.
#
# Guess: the mask hides padding, as in fairseq, which sets it to zero before the convolution: no word changes.
# So:    the mask comes after the convolution, and hides only the results at padding. The last words of each sentence
#        read what stands there, half a kernel in each layer: they depend on the longest sentence of the batch.
#        Zeros before the convolution mend the lightweight one. Attention is right.
# In:    espnet 202511, espnet/nets/pytorch_backend/transformer: lightconv.py, LightweightConvolution.forward;
#        dynamic_conv.py, DynamicConvolution.forward; encoder.py (selfattention_layer_type); also the 2D ones
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 packaging==26.4 typeguard==4.6.1
install --no-deps espnet==202511

python - <<'PYTHON' 2>/dev/null | seen "words of 8 that change beside a longer sentence
attention                  none
lightweight convolution    78, in two layers 5678
dynamic convolution        78, in two layers 5678
lightweight, zeros before  none"
import contextlib
import io

import torch

with contextlib.redirect_stdout(io.StringIO()):  # It says that there is no Flash Attention.
    from espnet.nets.pytorch_backend.transformer.encoder import Encoder

words = torch.arange(1, 9)[None]
padded = torch.cat([words, torch.zeros(1, 4, dtype=torch.long)], 1)
mask = padded[:, None] > 0  # 1 × 1 × 12


def changed(kind, layers=1, zeros=False):
    torch.manual_seed(1)
    encoder = Encoder(
        20, attention_dim=16, linear_units=16, num_blocks=layers, input_layer="embed", padding_idx=0,
        selfattention_layer_type=kind, conv_kernel_length="5_5",
    ).eval()
    alone, _ = encoder(words, mask[:, :, :8])
    if zeros:
        encoder.encoders[0].self_attn.act.register_forward_hook(lambda _, __, x: x * mask.transpose(1, 2))
    together, _ = encoder(padded, mask)
    change = (alone - together[:, :8]).abs().amax(-1)[0]
    return "".join(str(int(word) + 1) for word in (change > 1e-5).nonzero()) or "none"


print("words of 8 that change beside a longer sentence")
print("attention                 ", changed("selfattn"))
for name, kind in (("lightweight", "lightconv"), ("dynamic", "dynamicconv")):
    print(f"{name + ' convolution':26} {changed(kind)}, in two layers {changed(kind, 2)}")
print("lightweight, zeros before ", changed("lightconv", zeros=True))
PYTHON
