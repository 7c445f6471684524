#!/usr/bin/env bash
# The positions by which local-attention turns queries and keys (RoPE), with a window on both sides.
#
# Guess: a query and the key at its own position have the distance 0, with causal=True or without.
# So:    with causal=False, the default, RoPE turns queries as if they were window_size × look_forward positions later.
#        A query's own key is one window away, and the key one window ahead has the distance 0. Queries get the last
#        of the angles of the keys around them, which is right where no keys are ahead. A model trained so is
#        consistent in itself. Weights of other models with RoPE do not fit; another look_forward moves all distances.
# In:    local-attention 1.11.2, local_attention/rotary.py, apply_rotary_pos_emb; LocalAttention with dim, LocalMHA
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 local-attention==1.11.2

python - <<'PYTHON' 2>/dev/null | seen "                               as RoPE   queries later   query 9 sees most of
causal=True                    True      -               9
causal=False                   False     by 4: True      13
causal=False, look_forward=2   False     by 8: True      17
causal=False, look_forward=0   True      -               9"
import torch
from local_attention import LocalAttention

LENGTH, HEAD, WINDOW = 24, 8, 4
positions = torch.arange(LENGTH)
blocks = positions // WINDOW


def turned(x, positions):
    """Return x (…, LENGTH, HEAD) turned by RoPE: channel c together with c + HEAD/2."""
    angles = positions[:, None] * 10000 ** (-torch.arange(0, HEAD, 2) / HEAD)
    numbers = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([numbers.real, numbers.imag], -1)


def by_definition(query, key, value, causal, ahead, later):
    """Return the attention to keys of the own block, the one before and those ahead, with queries `later` positions."""
    scores = turned(query, positions + later) @ turned(key, positions).mT / HEAD ** .5
    back = blocks[:, None] - blocks
    visible = (back <= 1) & (back >= -ahead) & (positions <= positions[:, None] if causal else True)
    return scores.masked_fill(~visible, -torch.inf).softmax(-1) @ value


torch.manual_seed(1)
query, key, value = torch.randn(3, 1, LENGTH, HEAD)
equal, each = torch.ones(1, LENGTH, HEAD), torch.eye(LENGTH)[None]  # Equal queries and keys; the values tell the keys.
print("                               as RoPE   queries later   query 9 sees most of")
for name, causal, ahead in (("causal=True", True, 0), ("causal=False", False, 1),
                            ("causal=False, look_forward=2", False, 2), ("causal=False, look_forward=0", False, 0)):
    attention = LocalAttention(WINDOW, causal=causal, look_forward=ahead, dim=HEAD)
    right, shifted = (
        torch.allclose(attention(query, key, value), by_definition(query, key, value, causal, ahead, later), atol=1e-5)
        for later in (0, WINDOW * ahead))
    later = f"by {WINDOW * ahead}: {shifted}" if ahead else "-"
    print(f"{name:30} {right!s:9} {later:15} {attention(equal, equal, each)[0, 9].argmax()}")
PYTHON
