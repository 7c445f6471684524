#!/usr/bin/env bash
# Dropout in a layer that is computed again in the backward pass, to save memory (gradient checkpointing).
#
# Guess: the second pass drops what the first one dropped, as in torch. So the gradients are those of the loss.
# So:    MLX draws again, without an error: half of these zeros are at other places. Its TransformerEncoder with
#        checkpoint=True has the right loss and wrong gradients. Keras draws again on torch if dropout has a seed,
#        which is to make it repeatable. Without a seed it is right.
# In:    mlx 0.32.4, mlx/nn/utils.py, checkpoint, whose second pass goes on from the present mx.random.state;
#        keras 3.15.1 (RematScope), keras/src/backend/torch/random.py, dropout, whose SeedGenerator has counted on
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 keras==3.15.1 mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6

KERAS_BACKEND=torch python - <<'PYTHON' 2>/dev/null | seen "output and gradient are zero, or not, at the same places
torch              100 %
Keras, no seed     100 %
Keras, seed=1       49 %
MLX                 51 %
MLX's TransformerEncoder, checkpoint=True beside False
dropout 0.0   loss equal: True   gradients equal: True
dropout 0.1   loss equal: True   gradients equal: False"
import keras
import mlx.core as mx
import mlx.nn
import torch
from mlx.utils import tree_flatten
from torch.utils.checkpoint import checkpoint


def report(name, layer):
    words = torch.ones(10_000, requires_grad=True)
    output = layer(words)
    output.sum().backward()
    print(f"{name:15}{100 * ((output == 0) == (words.grad == 0)).float().mean():7.0f} %")


def of_encoder(dropout, **options):
    mx.random.seed(0)
    model = mlx.nn.TransformerEncoder(2, 16, 2, dropout=dropout, **options)
    words = mx.random.normal((2, 5, 16))
    loss, gradients = mlx.nn.value_and_grad(model, lambda: (model(words, None) ** 3).sum())()
    return loss, mx.concatenate([each.flatten() for _, each in tree_flatten(gradients)])


print("output and gradient are zero, or not, at the same places")
report("torch", lambda words: checkpoint(torch.nn.Dropout(0.5), words, use_reentrant=False))
with keras.RematScope(mode="full"):
    unseeded, seeded = keras.layers.Dropout(0.5), keras.layers.Dropout(0.5, seed=1)
report("Keras, no seed", lambda words: unseeded(words, training=True))
report("Keras, seed=1", lambda words: seeded(words, training=True))
mx.set_default_device(mx.cpu)
mx.random.seed(0)
(output,), (gradient,) = mx.vjp(mlx.nn.utils.checkpoint(mlx.nn.Dropout(0.5)), [mx.ones(10_000)], [mx.ones(10_000)])
print(f"MLX            {100 * ((output == 0) == (gradient == 0)).astype(mx.float32).mean().item():7.0f} %")

print("MLX's TransformerEncoder, checkpoint=True beside False")
for dropout in (0.0, 0.1):
    equal = [mx.allclose(*both, 1e-3, 1e-3) for both in zip(of_encoder(dropout, checkpoint=True), of_encoder(dropout))]
    print(f"dropout {dropout}   loss equal: {equal[0].item()}   gradients equal: {equal[1].item()}")
PYTHON
