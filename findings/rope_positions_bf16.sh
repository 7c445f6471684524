#!/usr/bin/env bash
# RoPE with bf16: how many of 1024 equal words it turns to a place of their own.
#
# Guess: all 1024. Positions are counted as integers or in fp32, and only the turned queries are rounded to bf16.
# So:    half of them. rotary-embedding-torch counts positions in the type of the queries, which torch.autocast makes
#        bf16. bf16 has all whole numbers up to 256. Beyond, neighbours share a position, from 512 on up to five: their
#        order and distance are lost. The module keeps such positions: a later call in fp32 has them as well.
#        If a call in fp32 of that length comes first, later ones in bf16 are right.
#        x-transformers and local-attention do the same in a model that is bf16 itself, as after model.bfloat16().
# In:    rotary-embedding-torch 0.9.1, RotaryEmbedding.get_seq_pos; x-transformers 2.31.10, RotaryEmbedding.forward;
#        local-attention 1.11.2, local_attention/rotary.py, SinusoidalEmbeddings.forward; torch 2.13.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 rotary-embedding-torch==0.9.1 x-transformers==2.31.10 local-attention==1.11.2

python - <<'PYTHON' 2>/dev/null | seen "                          fp32   fp32, rounded   autocast   model in bf16
rotary-embedding-torch    1024   1024            513        513
x-transformers            1024   1024            1024       513
local-attention           1024   1024            1024       513
rotary-embedding-torch, in fp32 after bf16: 513; in bf16 after fp32: 1024
positions 255 to 260 in bf16: 255 256 256 258 260 260"
import torch
from local_attention import rotary as L
from rotary_embedding_torch import RotaryEmbedding
from x_transformers import x_transformers as X


def places(turned):
    return len(torch.unique(turned.float().reshape(1024, 64), dim=0))


turns = (
    ("rotary-embedding-torch", RotaryEmbedding, lambda rope, x: rope.rotate_queries_or_keys(x)),
    ("x-transformers", X.RotaryEmbedding, lambda rope, x: X.apply_rotary_pos_emb(x, *rope.forward_from_seq_len(1024))),
    ("local-attention", L.SinusoidalEmbeddings, lambda rope, x: L.apply_rotary_pos_emb(x, x, *rope(x))[0]),
)

# One sentence, one head, 1024 times the same word of 64 channels.
torch.manual_seed(0)
linear = torch.nn.Linear(64, 64)
inputs = torch.randn(64).expand(1, 1, 1024, 64)
words = linear(inputs)
with torch.autocast("cpu", dtype=torch.bfloat16):
    automatic = linear(inputs)
assert automatic.dtype == torch.bfloat16

print(f"{'':25} {'fp32':6} {'fp32, rounded':15} {'autocast':10} model in bf16")
for name, build, turn in turns:
    full = turn(build(64), words)
    columns = places(full), places(full.bfloat16()), places(turn(build(64), automatic))
    print("{:25} {:<6} {:<15} {:<10}".format(name, *columns), places(turn(build(64).bfloat16(), automatic)))

after_bf16, after_fp32 = RotaryEmbedding(64), RotaryEmbedding(64)
after_bf16.rotate_queries_or_keys(automatic)
after_fp32.rotate_queries_or_keys(words)
first, second = places(after_bf16.rotate_queries_or_keys(words)), places(after_fp32.rotate_queries_or_keys(automatic))
print(f"rotary-embedding-torch, in fp32 after bf16: {first}; in bf16 after fp32: {second}")
positions = RotaryEmbedding(64).get_seq_pos(1024, dtype=torch.bfloat16)[255:261]
print("positions 255 to 260 in bf16:", *(int(each) for each in positions))
PYTHON
