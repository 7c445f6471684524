#!/usr/bin/env bash
# Which words a position of h-transformer-1d reads, in an encoder and in a causal model.
#
# Guess: hierarchical attention reads the whole text, near words one by one and far words in groups. A causal model
#        reads all earlier words.
# So:    an encoder of any depth reads half of the text: its two halves never meet. The coarsest level, which would
#        join them, is not computed. In a causal model a coarse level is hidden from all but the last word of a group.
#        The first word of the second half, as of most blocks, reads itself alone, four layers deep.
# In:    h-transformer-1d 0.1.9, h_transformer_1d.py, HAttention1D (num_levels) and CausalHAttention1D (mask)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 rotary-embedding-torch==0.9.1 h-transformer-1d==0.1.9

python - <<'PYTHON' 2>/dev/null | seen "encoder, 4 layers
  word  0 reads 0-15
  word 15 reads 0-15
  word 16 reads 16-31
  word 20 reads 16-31
  word 30 reads 16-31
  word 31 reads 16-31
causal, 4 layers
  word  0 reads 0
  word 15 reads 0-7, 12-15
  word 16 reads 16
  word 20 reads 20
  word 30 reads 0-23, 28-30
  word 31 reads 0-23, 28-31"
import torch
from h_transformer_1d import HTransformer1D

LENGTH = 32


def read(model, position):
    """Return the words, as ranges, of which a change changes the logits at a position."""
    words = torch.arange(LENGTH)[None]
    changed = words.repeat(LENGTH, 1)
    changed.fill_diagonal_(40)
    with torch.no_grad():
        differs = (model(changed) - model(words))[:, position].abs().amax(-1) > 0
    found = differs.nonzero().flatten().tolist()
    starts = [n for n in found if n - 1 not in found]
    ends = [n for n in found if n + 1 not in found]
    return ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in zip(starts, ends))


for causal in (False, True):
    torch.manual_seed(1)
    sizes = dict(num_tokens=50, dim=32, depth=4, heads=2, dim_head=16, block_size=4, max_seq_len=LENGTH)
    model = HTransformer1D(**sizes, causal=causal).double().eval()
    print("causal, 4 layers" if causal else "encoder, 4 layers")
    for position in (0, 15, 16, 20, 30, 31):
        print(f"  word {position:2} reads {read(model, position)}")
PYTHON
