#!/usr/bin/env bash
# Falcon of transformers, with the weights of its attention (output_attentions=True) and with eager attention.
#
# Guess: the model computes the same, whatever is returned and whichever implementation is set.
# So:    Falcon with RoPE, as in Falcon-7B, sees all later words when the default sdpa returns weights. The mask of
#        bools is added to the scores, as +1 for visible words. Loss, logits and weights are wrong, without a warning.
#        Falcon with ALiBi, as in Falcon-RW, has its slopes twice with weights or with eager attention. They are in
#        the mask already, and are added again. sdpa without weights is right, and so is eager with RoPE.
# In:    transformers 5.24.0, models/falcon/modeling_falcon.py, FalconModel.forward and FalconAttention.forward
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0

python - <<'PYTHON' 2>/dev/null | seen "        implementation   output_attentions   keys words see   times ALiBi
RoPE    sdpa             False               1 2 3 4          -
RoPE    sdpa             True                4 4 4 4          -
RoPE    eager            False               1 2 3 4          -
RoPE    eager            True                1 2 3 4          -
ALiBi   sdpa             False               1 2 3 4          1
ALiBi   sdpa             True                1 2 3 4          2
ALiBi   eager            False               1 2 3 4          2
ALiBi   eager            True                1 2 3 4          2"
import torch
from transformers import FalconConfig, FalconModel

HEADS, HEAD, LENGTH = 2, 8, 4
SLOPE = 2 ** (-8 / HEADS) / HEAD ** .5  # Of the first head (Press et al. 2022), and scaled as Falcon scales scores.
# Queries and keys are zero, so that positions alone count. Values are the rows of an identity matrix, so that the
# output of the first head, before it is projected, is the weights.
projected = torch.zeros(1, LENGTH, HEADS * HEAD + 2 * HEAD)
projected[..., -HEAD:] = torch.eye(LENGTH, HEAD)

print("        implementation   output_attentions   keys words see   times ALiBi")
for name, alibi in (("RoPE", False), ("ALiBi", True)):
    for implementation in ("sdpa", "eager"):
        for output_attentions in (False, True):
            model = FalconModel(FalconConfig(
                vocab_size=20, hidden_size=HEADS * HEAD, num_hidden_layers=1, num_attention_heads=HEADS, alibi=alibi,
                attn_implementation=implementation)).eval()
            attention, outputs = model.h[0].self_attention, []
            attention.query_key_value.register_forward_hook(lambda *_: projected)
            attention.dense.register_forward_pre_hook(lambda _, inputs: outputs.append(inputs[0][0, :, :LENGTH]))
            model(torch.arange(LENGTH)[None], output_attentions=output_attentions)
            weights = outputs[0]
            seen = " ".join(str((row > 1e-6).sum().item()) for row in weights)
            times = f"{(weights[3, 3] / weights[3, 2]).log().item() / SLOPE:.2g}" if alibi else "-"
            print(f"{name:7} {implementation:16} {output_attentions!s:19} {seen:16} {times}")
PYTHON
