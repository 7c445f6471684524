#!/usr/bin/env bash
# The words of a prompt that go into LitGPT's cache of keys together.
#
# Guess: they see what they see without a cache, as in training: the words before them.
# So:    not with logits of attention that are capped, as in Gemma 2: each word sees the whole prompt. With a window, as
#        in Gemma 3, a prompt beyond the window is refused. The error advises chunks of at most the window: from the
#        second chunk on the words see later words of their chunk, and no longer the words before the chunk.
# In:    litgpt 0.5.13, litgpt/model.py: CausalSelfAttention.scaled_dot_product_attention adds a boolean mask to the
#        scores (+1 or +0); KVCache.forward overwrites the last window, and the mask has no rows for that
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 lightning==2.6.1 litgpt==0.5.13

python - <<'PYTHON' 2>/dev/null | seen "words that word 5 of 8 sees        without a cache     with a cache
plain                              1 2 3 4 5           1 2 3 4 5
capped, as in Gemma 2              1 2 3 4 5           1 2 3 4 5 6 7 8
window 4 as in Gemma 3, chunks 4   2 3 4 5             5 6 7 8"
import torch
from litgpt import GPT, Config

SIZES = dict(block_size=8, n_layer=1, n_embd=16, n_head=2, padded_vocab_size=20)


@torch.no_grad()
def output(model, words, chunk):
    """Return the model's output at word 5. With a chunk the words go into a cache in parts of that size."""
    model.clear_kv_cache()
    if not chunk:
        return model(words)[0, 4]
    model.set_kv_cache(batch_size=1)
    places = torch.arange(8).split(chunk)
    return torch.cat([model(words[:, part], part, input_pos_maxp1=int(part[-1]) + 1) for part in places], 1)[0, 4]


def seen(model, chunk):
    """Return the words that change the output when they are changed."""
    words = torch.arange(8)[None]
    changed = [words + 10 * (words == place) for place in range(8)]
    before = output(model, words, chunk)
    return " ".join(str(i + 1) for i in range(8) if (output(model, changed[i], chunk) - before).abs().max() > 1e-6)


print("words that word 5 of 8 sees        without a cache     with a cache")
for name, chunk, options in (
    ("plain", 8, {}),
    ("capped, as in Gemma 2", 8, dict(attention_logit_softcapping=50.0)),
    ("window 4 as in Gemma 3, chunks 4", 4, dict(sliding_window_size=4, sliding_window_indices=[1])),
):
    torch.manual_seed(1)
    model = GPT(Config(**SIZES, **options)).eval()
    print(f"{name:35}{seen(model, None):20}{seen(model, chunk)}")
PYTHON
