#!/usr/bin/env bash
# position_embedding_type="relative_key" of BERT in transformers 5.
#
# Guess: the option, which transformers 4 had, gives BERT vectors of relative distances (Shaw et al. 2018), or is refused.
# So:    any value is taken and kept in the configuration, and none is read: the model has absolute positions alone,
#        with the same parameters and output.
# In:    transformers 5.24.0, models/bert/modeling_bert.py, class BertSelfAttention, which does not name the option
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0

python - <<'PYTHON' 2>/dev/null | seen "absolute      2608 parameters  output as absolute: True
relative_key  2608 parameters  output as absolute: True
nothing       2608 parameters  output as absolute: True"
import torch
from transformers import BertConfig, BertModel

sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=20)
outputs = []
for kind in ("absolute", "relative_key", "nothing"):
    torch.manual_seed(1)
    config = BertConfig(**sizes, max_position_embeddings=16, position_embedding_type=kind)
    model = BertModel(config).eval()
    outputs.append(model(torch.arange(4)[None]).last_hidden_state)
    parameters = sum(each.numel() for each in model.parameters())
    print(f"{config.position_embedding_type:13} {parameters} parameters  output as absolute: {outputs[0].equal(outputs[-1])}")
PYTHON
