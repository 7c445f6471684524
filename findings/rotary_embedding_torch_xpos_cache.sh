#!/usr/bin/env bash
# rotary-embedding-torch with use_xpos: decoding with cached keys.
#
# Guess: the last query's scores are those that it has among all queries, as in training. XPos shrinks a score by the
#        distance of query and key alone.
# So:    rotate_queries_with_cached_keys shrinks all scores by half of the text's length as well. At 2048 words a score
#        of 16 becomes 6.4: attention is flatter than in training. rotate_queries_and_keys, for training, is right.
# In:    rotary-embedding-torch 0.9.1, rotary_embedding_torch/rotary_embedding_torch.py, RotaryEmbedding.get_scale: it
#        counts from the middle of the positions that it is given, which are one for the query and all for the keys
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 rotary-embedding-torch==0.9.1

python - <<'PYTHON' 2>/dev/null | seen "score of the last query with   its own key            the key 16 words before
                               paper training cached  paper training cached
text of 64 words               16.00    16.00  15.44   8.39     8.39   8.30
text of 512 words              16.00    16.00  12.18   8.39     8.39   7.62
text of 2048 words             16.00    16.00   6.40   8.39     8.39   5.32"
import numpy as np
import torch
from rotary_embedding_torch import RotaryEmbedding

DIMENSIONS, BASE = 16, 512
rotary = RotaryEmbedding(dim=DIMENSIONS, use_xpos=True, xpos_scale_base=BASE)


def paper(distance):
    """Return the score of a query and a key whose channels are all one."""
    pairs = np.arange(0, DIMENSIONS, 2)
    decay = (pairs + 0.4 * DIMENSIONS) / (1.4 * DIMENSIONS)
    return (2 * decay ** (distance / BASE) * np.cos(distance * 10_000.0 ** (-pairs / DIMENSIONS))).sum()


print(f"{'score of the last query with':31}{'its own key':23}the key 16 words before")
print(" " * 31 + "paper training cached  paper training cached")
for length in (64, 512, 2048):
    words = torch.ones(1, 1, length, DIMENSIONS)
    query, keys = rotary.rotate_queries_and_keys(words, words)
    training = (keys @ query[..., -1:, :].mT).flatten()
    query, keys = rotary.rotate_queries_with_cached_keys(words[..., -1:, :], words)
    cached = (keys @ query.mT).flatten()
    row = [f"{paper(d):5.2f} {training[-1 - d]:8.2f} {cached[-1 - d]:6.2f}" for d in (0, 16)]
    print(f"{f'text of {length} words':31}{'  '.join(row)}")
PYTHON
