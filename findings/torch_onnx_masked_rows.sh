#!/usr/bin/env bash
# A query whose mask hides every key, in torch's attention and in the ONNX model that is exported from it.
#
# Guess: the exported model computes what torch computes, zeros.
# So:    by default, opset 20, a mask of bools gives the mean of all hidden values, and one of -inf gives NaN. With
#        opset_version=23, which has an operator for attention, both give zeros. Queries that see a key are right.
# In:    torch 2.13.0, its exporter (dynamo=True) and torch/onnx/_internal/exporter/_torchlib; onnx 1.23.2, onnxscript 0.7.2,
#        onnxruntime 1.32.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0

python - <<'PYTHON' 2>/dev/null | seen "mask     opset      torch    ONNX Runtime
bools    default    0, 0     2.5, 25
bools    23         0, 0     0, 0
-inf     default    0, 0     nan, nan
-inf     23         0, 0     0, 0"
import onnxruntime
import torch


class Attention(torch.nn.Module):
    def forward(self, query, key, value, mask):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


# One sentence, one head, two queries, four keys of two channels. The mean of the values is (2.5, 25).
query, key = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 4, 2)
value = torch.tensor([[1.0, 10], [2, 20], [3, 30], [4, 40]])[None, None]
visible = torch.tensor([[True, True, True, True], [False, False, False, False]])
hidden = torch.zeros(2, 4).masked_fill(~visible, -torch.inf)


def of_second(output):
    return ", ".join(f"{float(each):g}" for each in output[0, 0, 1])


print("mask     opset      torch    ONNX Runtime")
for name, mask in (("bools", visible), ("-inf", hidden)):
    for opset in (None, 23):
        inputs = query, key, value, mask
        torch.onnx.export(Attention(), inputs, dynamo=True, verbose=False, opset_version=opset).save("attention.onnx")
        session = onnxruntime.InferenceSession("attention.onnx")
        output = session.run(None, {each.name: x.numpy() for each, x in zip(session.get_inputs(), inputs)})[0]
        print(f"{name:8} {opset or 'default':<10} {of_second(Attention()(*inputs)):8} {of_second(output)}")
PYTHON
