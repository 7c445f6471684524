#!/usr/bin/env bash
# The first three updates of Adam, in learning rates, with gradients that stay the same: 1, and 10^-7.
#
# Guess: equal betas (.9, .98) and an epsilon of 10^-8 make equal updates: Kingma and Ba 2015, algorithm 1, has 1.00, 1.00,
#        1.00 and .91, .91, .91.
# So:    MLX leaves out the correction of the means, in AdamW as well, unless bias_correction=True: the first update is .71
#        of the learning rate, and the third is above it. fairseq and Keras add epsilon before the correction, as the end of
#        the paper's section 2 does: small gradients count less in the first updates.
# In:    mlx 0.32.4, mlx/optimizers/optimizers.py; fairseq-fixed 0.12.3.1, fairseq/optim/adam.py; keras 3.15.1,
#        keras/src/optimizers/adam.py; torch 2.13.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq
install mlx==0.32.4 mlx-cpu==0.32.4 keras==3.15.1

KERAS_BACKEND=torch python - <<'PYTHON' 2>/dev/null | seen "gradient         1                   10^-7
torch            1.00 1.00 1.00      0.91 0.91 0.91
fairseq          1.00 1.00 1.00      0.59 0.67 0.71
Keras            1.00 1.00 1.00      0.59 0.67 0.71
MLX              0.71 0.95 1.12      0.41 0.64 0.79
MLX, corrected   1.00 1.00 1.00      0.91 0.91 0.91"
import keras
import mlx.core as mx
import mlx.optimizers
import torch
from fairseq.optim.adam import Adam

RATE, BETAS, EPSILON = 0.001, (0.9, 0.98), 1e-8


def by_torch(kind, gradient):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = kind([weight], lr=RATE, betas=BETAS, eps=EPSILON)
    for _ in range(3):
        weight.grad = torch.tensor([gradient])
        optimizer.step()
        yield weight.item()


def by_keras(gradient):
    weight = keras.Variable([0.0])
    optimizer = keras.optimizers.Adam(RATE, beta_1=BETAS[0], beta_2=BETAS[1], epsilon=EPSILON)
    for _ in range(3):
        optimizer.apply([keras.ops.convert_to_tensor([gradient])], [weight])
        yield float(weight.numpy()[0])


def by_mlx(gradient, **options):
    weights = {"weight": mx.zeros(1)}
    optimizer = mlx.optimizers.Adam(RATE, betas=list(BETAS), eps=EPSILON, **options)
    for _ in range(3):
        weights = optimizer.apply_gradients({"weight": mx.array([gradient])}, weights)
        yield weights["weight"].item()


print("gradient         1                   10^-7")
for name, weights_after in (
    ("torch", lambda gradient: by_torch(torch.optim.Adam, gradient)),
    ("fairseq", lambda gradient: by_torch(Adam, gradient)),
    ("Keras", by_keras),
    ("MLX", by_mlx),
    ("MLX, corrected", lambda gradient: by_mlx(gradient, bias_correction=True)),
):
    columns = []
    for gradient in (1.0, 1e-7):
        weights = [0.0, *weights_after(gradient)]
        columns.append(" ".join(f"{(a - b) / RATE:.2f}" for a, b in zip(weights, weights[1:])))
    print(f"{name:16} {columns[0]:19} {columns[1]}")
PYTHON
