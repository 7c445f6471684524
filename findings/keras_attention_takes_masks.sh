#!/usr/bin/env bash
# Keras: two layers of attention over a sentence with padding, whose mask the embedding makes (mask_zero=True).
#
# Guess: both layers hide the padding, as Keras passes the mask on with the tensor.
# So:    the first layer alone does. MultiHeadAttention takes the mask off the tensors that it is given, in place.
#        A decoder's second layer gets the encoder's output without a mask, and attends to padding.
#        In an encoder that normalizes after the sum (Vaswani et al. 2017), Add then finds one mask of two and drops
#        it. No warning is given. An encoder that normalizes first is right, and so is GroupQueryAttention.
# In:    keras 3.15.1, keras/src/layers/attention/multi_head_attention.py, MultiHeadAttention.call (its set_keras_mask),
#        and layers/merging/base_merge.py, Merge.compute_mask; by its backends torch and numpy
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 keras==3.15.1
KERAS_BACKEND=torch python - <<'PYTHON' 2>/dev/null | seen "outputs as without padding               layer 1  layer 2
MultiHeadAttention, decoder              True     False
MultiHeadAttention, encoder              True     False
MultiHeadAttention, normalizes first     True     True
GroupQueryAttention, decoder             True     True
GroupQueryAttention, encoder             True     True"
from functools import partial

import keras
import numpy as np
from keras.layers import Add, Embedding, GroupQueryAttention, LayerNormalization, MultiHeadAttention


def encoder(attention, first=False):
    words = keras.Input((None,), dtype="int32")
    x, layers = Embedding(20, 8, mask_zero=True)(words), []
    for _ in range(2):
        normal = LayerNormalization()(x) if first else x
        x = Add()([x, attention()(normal, normal)])
        x = x if first else LayerNormalization()(x)
        layers.append(x)
    return keras.Model(words, layers)


def decoder(attention):
    words, queries = keras.Input((None,), dtype="int32"), keras.Input((None, 8))
    x, encoded, layers = queries, Embedding(20, 8, mask_zero=True)(words), []
    for _ in range(2):
        x = attention()(x, encoded)
        layers.append(x)
    return keras.Model([words, queries], layers)


multi_head, grouped = partial(MultiHeadAttention, 2, 4), partial(GroupQueryAttention, 4, 2, 2)
keras.utils.set_random_seed(1)
padded, queries = np.array([[3, 4, 5, 0, 0, 0]]), np.ones((1, 2, 8), "float32")
print("outputs as without padding               layer 1  layer 2")
for name, model in (
        ("MultiHeadAttention, decoder", decoder(multi_head)),
        ("MultiHeadAttention, encoder", encoder(multi_head)),
        ("MultiHeadAttention, normalizes first", encoder(multi_head, first=True)),
        ("GroupQueryAttention, decoder", decoder(grouped)),
        ("GroupQueryAttention, encoder", encoder(grouped))):
    with_padding, without = (
        [keras.ops.convert_to_numpy(x)[:, :3] for x in model([words, queries] if "decoder" in name else words)]
        for words in (padded, padded[:, :3]))
    print(f"{name:40}", "     ".join(str(np.allclose(x, y, atol=1e-5)) for x, y in zip(with_padding, without)))
PYTHON
