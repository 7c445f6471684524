#!/usr/bin/env bash
# A causal mask where there are fewer queries than keys, as in decoding with a cache.
#
# Guess: the last query is at the last key, so one query sees all of four keys.
# So:    by torch, JAX, Paddle and ONNX Runtime the first query is at the first key, and one query sees one key. MLX takes
#        the guess.
# In:    torch 2.13.0, scaled_dot_product_attention(is_causal=True); jax 0.10.2, jax.nn.dot_product_attention(is_causal=True);
#        paddlepaddle 3.3.1, the same name as torch; onnxruntime 1.32.0, operator Attention of opset 23 with is_causal=1;
#        mlx 0.32.4, mlx.core.fast.scaled_dot_product_attention(mask="causal")
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 jax==0.10.2 mlx==0.32.4 mlx-cpu==0.32.4 paddlepaddle==3.3.1 onnx==1.23.2 onnxruntime==1.32.0

python - <<'PYTHON' 2>/dev/null | seen "keys seen by      one query of 4 keys    each of two queries
torch             1                      1 2
jax               1                      1 2
mlx               4                      3 4
paddle            1                      1 2
onnxruntime       1                      1 2"
import jax
import mlx.core as mx
import numpy as np
import onnxruntime
import paddle
import torch
from onnx import TensorProto, helper

mx.set_default_device(mx.cpu)


def by_torch(*inputs):
    return torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, inputs), is_causal=True)


def by_jax(*inputs):
    return jax.nn.dot_product_attention(*(each.swapaxes(1, 2) for each in inputs), is_causal=True).swapaxes(1, 2)


def by_mlx(*inputs):
    return mx.fast.scaled_dot_product_attention(*map(mx.array, inputs), scale=1.0, mask="causal")


def by_paddle(*inputs):
    inputs = [paddle.to_tensor(each.swapaxes(1, 2)) for each in inputs]
    return paddle.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True).numpy().swapaxes(1, 2)


def by_onnxruntime(*inputs):
    named = dict(zip("qkv", inputs))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape) for name, each in named.items()]
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, inputs[0].shape)
    node = helper.make_node("Attention", [*named], ["result"], is_causal=1)
    graph = helper.make_graph([node], "attention", infos, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, named)[0]


def seen(attention, queries):
    """Return how many keys each query sees: the values are the rows of an identity matrix."""
    random = np.random.default_rng(1)
    query, keys = (random.standard_normal((1, 1, each, 4)).astype("float32") for each in (queries, 4))
    values = np.eye(4, dtype="float32")[None, None]
    return " ".join(str((row > 1e-6).sum()) for row in np.asarray(attention(query, keys, values))[0, 0])


print("keys seen by      one query of 4 keys    each of two queries")
for attention in (by_torch, by_jax, by_mlx, by_paddle, by_onnxruntime):
    name = attention.__name__.removeprefix("by_")
    print(f"{name:17} {seen(attention, 1):22} {seen(attention, 2)}")
PYTHON
