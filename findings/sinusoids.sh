#!/usr/bin/env bash
# The sinusoids of positions of 8 channels, at the second word of a sentence.
#
# Guess: those of the paper (Vaswani et al. 2017, section 3.5): sine and cosine of 1, of 10000^(-2/8), …, by turns.
# So:    five of six do something else. Marian and x-transformers have all sines before all cosines; Whisper, M2M-100 and
#        MLX too, with frequencies down to 1/10000 itself. M2M-100 begins at position 2, as fairseq does. MLX scales to
#        length 1, x-transformers by 8^(-1/2). Weights are of no use in another library until this is made up for; none
#        says it by an error.
# In:    transformers 5.24.0, models/xlm, models/marian, models/whisper, models/m2m_100; mlx 0.32.4,
#        nn/layers/positional_encoding.py; x-transformers 2.31.10, x_transformers.py, ScaledSinusoidalEmbedding
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 x-transformers==2.31.10 mlx==0.32.4 mlx-cpu==0.32.4

python - <<'PYTHON' 2>/dev/null | seen "                  length   channels of the second word
XLM (the paper's)    2.00    0.841  0.540  0.100  0.995  0.010  1.000  0.001  1.000
Marian               2.00    0.841  0.100  0.010  0.001  0.540  0.995  1.000  1.000
Whisper              2.00    0.841  0.046  0.002  0.000  0.540  0.999  1.000  1.000
M2M-100              2.00    0.141  0.139  0.006  0.000 -0.990  0.990  1.000  1.000
MLX                  1.00    0.421  0.023  0.001  0.000  0.270  0.499  0.500  0.500
x-transformers       0.71    0.298  0.035  0.004  0.000  0.191  0.352  0.354  0.354"
import mlx.core as mx
import numpy as np
import torch
from mlx.nn import SinusoidalPositionalEncoding
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.whisper.modeling_whisper import sinusoids
from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings
from x_transformers.x_transformers import ScaledSinusoidalEmbedding

words, padding, channels = torch.tensor([[5, 6, 7]]), 1, 8
tables = {
    "XLM (the paper's)": create_sinusoidal_embeddings(3, channels, torch.empty(3, channels)),
    "Marian": MarianSinusoidalPositionalEmbedding(3, channels).create_weight(),
    "Whisper": sinusoids(3, channels),
    "M2M-100": M2M100SinusoidalPositionalEmbedding(9, channels, padding)(words)[0],
    "MLX": torch.tensor(np.array(SinusoidalPositionalEncoding(channels)(mx.arange(3)))),
    "x-transformers": ScaledSinusoidalEmbedding(channels)(torch.zeros(1, 3, channels)),
}
print("                  length   channels of the second word")
for name, table in tables.items():
    second = table[1].detach()
    print(f"{name:17} {second.norm():7.2f}  ", " ".join(f"{x:6.3f}" for x in second.tolist()))
PYTHON
