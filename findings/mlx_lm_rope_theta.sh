#!/usr/bin/env bash
# RoPE of models that transformers 5 saved, in MLX-LM.
#
# Guess: MLX-LM reads the model's base theta, and Llama 3.1's scaling of frequencies, from its config.json.
# So:    transformers 5 writes both into rope_parameters there, and no longer into rope_theta and rope_scaling. Most of
#        MLX-LM's models look for the old names only. Llama and Qwen2, among others, then take their own default: 10,000
#        or 1,000,000. There is no error. A model that is trained further with transformers 5 predicts other words.
#        With the old names in config.json as well it is right. Qwen3 is right as it is.
# In:    mlx-lm 0.32.2, mlx_lm/models/llama.py and qwen2.py, ModelArgs; transformers 5.24.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 mlx==0.32.4 mlx-cpu==0.32.4 mlx-lm==0.32.2

python - <<'PYTHON' 2>/dev/null | seen "of 100 predictions are transformers'      MLX-LM   with the old names as well
Llama, theta 10,000                          100             100
Llama, theta 500,000                          18             100
Llama, theta 500,000, scaled                  16             100
Qwen2, theta 1,000,000                       100             100
Qwen2, theta 10,000                           20             100
Qwen3, theta 500,000                         100             100"
import json
import pathlib

import mlx.core as mx
import numpy as np
import torch
import transformers
from mlx_lm.utils import load_model

mx.set_default_device(mx.cpu)
SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, intermediate_size=64)
SCALING = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
words = np.random.default_rng(1).integers(3, 64, (1, 100))


def saved(kind, rope):
    """Save a small model with transformers, and return the words that it predicts."""
    torch.manual_seed(1)
    options = dict(SIZES, vocab_size=64, head_dim=16, initializer_range=0.3, rope_parameters=rope)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**options)).eval()
    model.save_pretrained(kind)
    with torch.no_grad():
        return model(torch.from_numpy(words)).logits[0].argmax(-1).numpy()


def by_mlx(kind):
    return np.array(load_model(pathlib.Path(kind))[0](mx.array(words)).argmax(-1))[0]


def add_old_names(kind):
    path = pathlib.Path(kind, "config.json")
    config = json.loads(path.read_text())
    rope = config["rope_parameters"]
    config |= dict(rope_theta=rope["rope_theta"], rope_scaling=None if rope["rope_type"] == "default" else rope)
    path.write_text(json.dumps(config))


print("of 100 predictions are transformers'      MLX-LM   with the old names as well")
for kind, theta, scaling in (
    ("Llama", 1e4, {}),
    ("Llama", 5e5, {}),
    ("Llama", 5e5, SCALING),
    ("Qwen2", 1e6, {}),
    ("Qwen2", 1e4, {}),
    ("Qwen3", 5e5, {}),
):
    right = saved(kind, dict(scaling, rope_type="llama3" if scaling else "default", rope_theta=theta))
    counts = [(by_mlx(kind) == right).sum()]
    add_old_names(kind)
    counts.append((by_mlx(kind) == right).sum())
    name = f"{kind}, theta {theta:,.0f}{', scaled' if scaling else ''}"
    print(f"{name:41} {counts[0]:6} {counts[1]:15}")
PYTHON
