#!/usr/bin/env bash
# The scale of normalized queries and keys in block-recurrent-transformer-pytorch.
#
# Guess: with qk_rmsnorm, which recurrent layers always have, scores are cosines times qk_rmsnorm_scale, 8 by default.
# So:    the scale is computed and not used. Scores are cosines divided by the root of the size of a head: of 64
#        channels, no key has more than 1.3 times the weight of another: a new recurrent layer averages all words.
# In:    block-recurrent-transformer-pytorch 0.4.4, block_recurrent_transformer_pytorch.py, Attention.forward (scale)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 beartype==0.23.1 block-recurrent-transformer-pytorch==0.4.4

python - <<'PYTHON' 2>/dev/null | seen "Attention, qk_rmsnorm_scale=1   : weight of the equal key 0.112, right is 0.229
Attention, qk_rmsnorm_scale=8   : weight of the equal key 0.112, right is 0.995
Attention, qk_rmsnorm_scale=80  : weight of the equal key 0.112, right is 1.000
Attention without qk_rmsnorm    : weight of the equal key 0.995, right is 0.995
layer 1 of a model, recurrent   : weight of the equal key 0.112, right is 0.995
layer 2 of a model, not recurrent: weight of the equal key 0.995, right is 0.995"
import torch
from block_recurrent_transformer_pytorch import BlockRecurrentTransformer
from block_recurrent_transformer_pytorch.block_recurrent_transformer_pytorch import Attention

KEYS, CHANNELS = 10, 64
torch.manual_seed(1)
q = k = torch.nn.functional.normalize(torch.randn(1, KEYS, CHANNELS), dim=-1) * CHANNELS**0.5
identity = torch.eye(KEYS)[None]


def show(name, attention, scale):
    """Print the mean weight of the key that equals the query, and what softmax(scale * cosine) gives."""
    with torch.no_grad():
        found = attention(q[:, None], k, identity)[0, 0]
        cosines = torch.nn.functional.cosine_similarity(q[0, :, None], k[0, None], dim=-1)
    right = (scale * cosines).softmax(-1)
    print(f"{name:32}: weight of the equal key {found.diag().mean():.3f}, right is {right.diag().mean():.3f}")


for scale in (1, 8, 80):
    show(f"Attention, qk_rmsnorm_scale={scale}", Attention(CHANNELS, qk_rmsnorm=True, qk_rmsnorm_scale=scale), scale)
show("Attention without qk_rmsnorm", Attention(CHANNELS), CHANNELS**0.5)
model = BlockRecurrentTransformer(num_tokens=50, dim=32, depth=2, block_width=16, max_seq_len=32)
for place, (layer, _) in enumerate(model.layers, 1):
    kind = "recurrent" if layer.is_recurrent_layer else "not recurrent"
    show(f"layer {place} of a model, {kind}", layer.attn, 8)
PYTHON
