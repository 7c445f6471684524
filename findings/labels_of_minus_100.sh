#!/usr/bin/env bash
# The mean loss of two words and two paddings with the label -100, with which transformers' collators pad.
#
# Guess: -100 doesn't count, as by torch, or is an error. The mean is over the two words.
# So:    optax and MLX count from the end of the vocabulary and train its word 28 of 128.
#        By Keras and Paddle padding costs nothing and counts in the mean: more padding makes smaller gradients.
#        Keras is right with ignore_class=-100. Paddle's default is ignore_index=-100, and one of 0 or more is right.
# In:    optax 0.2.8, losses/_classification.py, softmax_cross_entropy_with_integer_labels; mlx 0.32.4, nn/losses.py,
#        cross_entropy; keras 3.15.1, losses/losses.py, SparseCategoricalCrossentropy; paddlepaddle 3.3.1,
#        nn/functional/loss.py, cross_entropy (its pull request 76033 is open); torch 2.13.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 jax==0.10.2 optax==0.2.8 mlx==0.32.4 mlx-cpu==0.32.4
install keras==3.15.1 paddlepaddle==3.3.1

KERAS_BACKEND=torch python - <<'PYTHON' 2>/dev/null | seen "torch                          5.05    over the 2 words
optax                          5.71    over 4 words, two are word 28
MLX                            5.71    over 4 words, two are word 28
Keras                          2.53    over 4, two cost nothing
Keras, ignore_class=-100       5.05    over the 2 words
Paddle                         2.53    over 4, two cost nothing
Paddle, 0 for -100             5.05    over the 2 words"
import jax.numpy as jnp
import keras
import mlx.core as mx
import mlx.nn
import numpy as np
import optax
import paddle
import torch

mx.set_default_device(mx.cpu)
labels = np.array([5, 6, -100, -100])
logits = np.random.default_rng(1).standard_normal((4, 128)).astype("float32")
costs = np.log(np.exp(logits).sum(1)) - logits[range(4), labels % 128]  # By the definition; -100 + 128 = 28.
meanings = {"over the 2 words": costs[:2].sum() / 2, "over 4 words, two are word 28": costs.sum() / 4,
            "over 4, two cost nothing": costs[:2].sum() / 4}


def report(name, loss):
    meaning = next(text for text, value in meanings.items() if abs(value - float(loss)) < 1e-4)
    print(f"{name:30} {float(loss):.2f}    {meaning}")


def by_keras(**options):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)(labels, logits)


def by_paddle(labels, **options):
    return paddle.nn.functional.cross_entropy(paddle.to_tensor(logits), paddle.to_tensor(labels), **options)


report("torch", torch.nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels)))
report("optax", optax.softmax_cross_entropy_with_integer_labels(jnp.array(logits), jnp.array(labels)).mean())
report("MLX", mlx.nn.losses.cross_entropy(mx.array(logits), mx.array(labels), reduction="mean").item())
report("Keras", by_keras())
report("Keras, ignore_class=-100", by_keras(ignore_class=-100))
report("Paddle", by_paddle(labels))
report("Paddle, 0 for -100", by_paddle(np.where(labels == -100, 0, labels), ignore_index=0))
PYTHON
