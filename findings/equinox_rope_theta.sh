#!/usr/bin/env bash
# Two of Equinox's RotaryPositionalEmbedding with different theta, as for local and global layers, in one program.
#
# Guess: each module turns by its own theta.
# So:    all modules of one size and dtype share a table of angles, which theta does not distinguish. The second module
#        turns by the theta of the first. A longer text makes the table anew, with the theta of whoever reads it: then
#        both have that one. What a model computes depends on what ran before it. With other sizes each has its own.
# In:    equinox 0.13.8, equinox/nn/_embedding.py, RotaryPositionalEmbedding.__call__, whose key of
#        internal_rope_embedding_cache lacks theta; jax 0.10.2
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install equinox==0.13.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6

python - <<'PYTHON' 2>/dev/null | seen "theta of the module    by its angles
1st, of 8 words    10000        10000
2nd, of 8 words      100        10000
2nd, of 9 words      100          100
1st, of 8 words    10000          100
size 8, 8 words      100          100"
import equinox
import jax.numpy as jnp
import numpy as np


def by_angles(module, words):
    # A head whose first half is 1 and second half 0 becomes the cosines and the sines of its angles.
    half = module.embedding_size // 2
    head = jnp.concatenate([jnp.ones((words, half)), jnp.zeros((words, half))], axis=1)
    turned = np.asarray(module(head), dtype=np.float64)
    angle = np.arctan2(turned[1, half + 1], turned[1, 1])  # of the second word and pair: theta ** (-1 / half)
    return f"{float(angle) ** -half:.0f}"


first = equinox.nn.RotaryPositionalEmbedding(4, theta=10_000.0)
second = equinox.nn.RotaryPositionalEmbedding(4, theta=100.0)
other = equinox.nn.RotaryPositionalEmbedding(8, theta=100.0)
print("theta of the module    by its angles")
for name, module, words in (
    ("1st, of 8 words", first, 8),
    ("2nd, of 8 words", second, 8),
    ("2nd, of 9 words", second, 9),
    ("1st, of 8 words", first, 8),
    ("size 8, 8 words", other, 8),
):
    print(f"{name}   {module.theta:6.0f}   {by_angles(module, words):>10}")
PYTHON
