#!/usr/bin/env bash
# A query whose mask hides every key.
#
# Guess: zeros everywhere, or NaN, so that one notices.
# So:    zeros by torch's functional attention and by ONNX Runtime, NaN by Paddle and by torch's module with its weights.
#        JAX and MLX return the mean of all values, hidden ones too. The output looks like any other.
# In:    torch 2.13.0, paddlepaddle 3.3.1, onnxruntime 1.32.0; jax 0.10.2, jax/_src/nn/functions.py, _get_large_negative;
#        mlx 0.32.4, fast.scaled_dot_product_attention. On CPUs, with a mask of bools.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 jax==0.10.2 mlx==0.32.4 mlx-cpu==0.32.4 paddlepaddle==3.3.1 onnx==1.23.2 onnxruntime==1.32.0

python - <<'PYTHON' 2>/dev/null | seen "torch, functional             0, 0
torch, MultiheadAttention     nan, nan
jax                           2.5, 25
mlx                           2.5, 25
paddle                        nan, nan
onnxruntime                   0, 0"
import jax
import mlx.core as mx
import numpy as np
import onnxruntime
import paddle
import torch
from onnx import TensorProto, helper

mx.set_default_device(mx.cpu)
# One sentence, one head, one query, four keys of two channels: 1×1×T×D. The mean of the values is (2.5, 25).
queries, keys = np.ones((1, 1, 1, 2), "float32"), np.ones((1, 1, 4, 2), "float32")
values = np.array([[1, 10], [2, 20], [3, 30], [4, 40]], "float32")[None, None]
inputs, visible = (queries, keys, values), np.zeros((1, 1, 1, 4), bool)
by_position = [each.transpose(0, 2, 1, 3) for each in inputs]  # 1×T×1×D


def module():
    attention = torch.nn.MultiheadAttention(2, 1, bias=False, batch_first=True)
    query, key, value = (torch.from_numpy(each[0]) for each in inputs)
    return attention(query, key, value, attn_mask=torch.from_numpy(~visible[0, 0]))[0].detach().numpy()


def runtime():
    shapes = {"q": queries.shape, "k": keys.shape, "v": values.shape}
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    mask = helper.make_tensor_value_info("mask", TensorProto.BOOL, (1, 4))
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, queries.shape)
    node = helper.make_node("Attention", [*shapes, "mask"], ["result"])
    graph = helper.make_graph([node], "attention", [*tensors, mask], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {**dict(zip(shapes, inputs)), "mask": visible[0, 0]})[0]


def report(name, output):
    print(f"{name:29}", ", ".join(f"{each:g}" for each in np.asarray(output).ravel()))


tensors = [torch.from_numpy(each) for each in inputs]
mask = torch.from_numpy(visible)
report("torch, functional", torch.nn.functional.scaled_dot_product_attention(*tensors, mask))
report("torch, MultiheadAttention", module())
report("jax", jax.nn.dot_product_attention(*by_position, mask=visible))
report("mlx", mx.fast.scaled_dot_product_attention(*map(mx.array, inputs), scale=1.0, mask=mx.array(visible)))
tensors = [paddle.to_tensor(each) for each in by_position]
mask = paddle.to_tensor(visible)
report("paddle", paddle.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask).numpy())
report("onnxruntime", runtime())
PYTHON
