#!/usr/bin/env bash
# Models with a sliding window of 8, of 100 words, in MLX-LM and transformers.
#
# Guess: equal weights and config.json predict the same words in both.
# So:    MLX-LM has no window in Gemma 2, Mistral, Phi-3 and StarCoder 2: from word 8 on each word sees all before it.
#        There is no error or warning. Published ones have windows of 2047 words (Phi-3 mini 4k) or 4096. Beyond that
#        MLX-LM's model is another one than was trained. Without a window it is right.
# In:    mlx-lm 0.32.2, mlx_lm/models/gemma2.py, llama.py (for Mistral), phi3.py and starcoder2.py; transformers 5.24.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 mlx==0.32.4 mlx-cpu==0.32.4 mlx-lm==0.32.2

python - <<'PYTHON' 2>/dev/null | seen "first word of 100 that differs   window of 8   no window
Gemma2                                     8           -
Mistral                                    8           -
Phi3                                       8           -
Starcoder2                                 8           -"
import json
import pathlib

import mlx.core as mx
import numpy as np
import torch
import transformers
from mlx_lm.utils import load_model

mx.set_default_device(mx.cpu)
words = np.random.default_rng(1).integers(3, 64, (1, 100))


def first_difference(kind, window):
    torch.manual_seed(1)
    options = dict(vocab_size=64, hidden_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2)
    options |= dict(intermediate_size=64, head_dim=16, initializer_range=0.2, pad_token_id=0, sliding_window=window)
    options |= dict(rope_parameters=dict(rope_type="default", rope_theta=10_000.0))
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**options)).eval()
    model.save_pretrained(kind)
    path = pathlib.Path(kind, "config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | dict(rope_theta=10_000.0)))
    with torch.no_grad():
        right = model(torch.from_numpy(words)).logits[0].numpy()
    differs = np.abs(np.array(load_model(path.parent)[0](mx.array(words)))[0] - right).max(1) > 0.02
    return differs.argmax() if differs.any() else "-"


print("first word of 100 that differs   window of 8   no window")
for kind in ("Gemma2", "Mistral", "Phi3", "Starcoder2"):
    print(f"{kind:33}{first_difference(kind, 8):>11} {first_difference(kind, 4096):>11}")
PYTHON
