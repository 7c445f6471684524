#!/usr/bin/env bash
# An attention function of one's own in transformers, and padding.
#
# Guess: AttentionInterface.register("mine", function) is enough; the function gets the mask that other functions get.
# So:    models make no mask for a name that AttentionMaskInterface does not know. The function gets None, for padding
#        too, without a warning: with the function of sdpa under another name, a sentence attends to its padding.
# In:    transformers 5.24.0, masking_utils.py, _preprocess_mask_arguments; also 4.53 to 4.57
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0

python - <<'PYTHON' 2>/dev/null | seen "sdpa               outputs as without padding: True
mine               outputs as without padding: False
mine, with a mask  outputs as without padding: True"
import torch
from transformers import AttentionInterface, AttentionMaskInterface, BertConfig, BertModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

AttentionInterface.register("mine", sdpa_attention_forward)
sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=20)
words, padded = torch.arange(1, 5)[None], torch.tensor([[1, 2, 3, 4, 0, 0]])
for name, attention in (("sdpa", "sdpa"), ("mine", "mine"), ("mine, with a mask", "mine")):
    if name.endswith("mask"):
        AttentionMaskInterface.register("mine", sdpa_mask)
    torch.manual_seed(1)
    model = BertModel(BertConfig(**sizes, attn_implementation=attention)).eval()
    alone = model(words).last_hidden_state
    beside_padding = model(padded, attention_mask=padded.ne(0).long()).last_hidden_state[:, :4]
    print(f"{name:17}  outputs as without padding: {torch.allclose(alone, beside_padding, atol=1e-6)}")
PYTHON
