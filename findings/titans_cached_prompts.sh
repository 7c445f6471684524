#!/usr/bin/env bash
# titans-pytorch: sampling with a cache (use_cache=True) after a prompt that is longer than a segment.
#
# Guess: the new words see what they see without a cache, as in training: the words of their own segment before them.
# So:    they do not, unless the prompt ends where a segment ends. The model cuts the keys of the prompt to the length
#        of a segment, takes that for the end of a segment, and drops them all. New words do not see the prompt's last
#        words, and all later segments begin at other places. Prompts within the first segment are right, and so is
#        sliding_window_attn=True.
# In:    titans-pytorch 0.5.5, titans_pytorch/mac_transformer.py, MemoryAsContextTransformer.forward, return_cache
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 einx==0.4.3 tensordict==0.15.3 assoc-scan==0.0.6
install axial-positional-embedding==0.3.12 hyper-connections==0.4.11 rotary-embedding-torch==0.9.1
install x-transformers==2.31.10 titans-pytorch==0.5.5

python - <<'PYTHON' 2>/dev/null | seen "           word 10 sees, by attention     logits of later words as without a cache
prompt     without       with a cache   neural memory   and sliding window
3          9 10          9 10           True            True
4          9 10          9 10           True            True
6          9 10          7 8 9 10       False           True
7          9 10          8 9 10         False           True
8          9 10          9 10           True            True
9          9 10          10             False           True"
import torch
from titans_pytorch import MemoryAsContextTransformer

SEGMENT, LENGTH, PLACE = 4, 12, 10
text = torch.arange(LENGTH)[None]


def new(**options):
    """Return a small model with segments of four words."""
    torch.manual_seed(1)
    sizes = dict(num_tokens=32, dim=16, depth=1, segment_len=SEGMENT, dim_head=8, heads=2)
    return MemoryAsContextTransformer(**sizes, **options).eval()


@torch.no_grad()
def logits(model, words, prompt=None):
    """Return the logits after each word, of one pass or of a cache that starts with the prompt, as sample does."""
    if prompt is None:
        return model(words)[0]
    cache, steps = None, []
    for end in range(prompt, LENGTH + 1):
        step, cache = model(words[:, :end], cache=cache, return_cache=True)
        steps.append(step[0, -1])
    return torch.cat([model(words[:, : prompt - 1])[0], torch.stack(steps)])


def seen(model, prompt=None):
    """Return the words that change the logits at PLACE when they are changed."""
    before = logits(model, text, prompt)[PLACE - 1]
    changed = [text + 16 * (torch.arange(LENGTH) == place) for place in range(LENGTH)]
    differences = [(logits(model, words, prompt)[PLACE - 1] - before).abs().max() for words in changed]
    return " ".join(str(place + 1) for place in range(LENGTH) if differences[place] > 1e-6)


attention = new(neural_memory_layers=())
memory = new(neural_memory_kwargs=dict(dim_head=8, heads=2))
sliding = new(neural_memory_kwargs=dict(dim_head=8, heads=2), sliding_window_attn=True)
print(f"           word {PLACE} sees, by attention     logits of later words as without a cache")
print("prompt     without       with a cache   neural memory   and sliding window")
for prompt in (3, 4, 6, 7, 8, 9):
    equal = []
    for model in (memory, sliding):
        equal.append(torch.allclose(logits(model, text, prompt), logits(model, text), atol=1e-4))
    print(f"{prompt:<10} {seen(attention):13} {seen(attention, prompt):14} {equal[0]!s:15} {equal[1]}")
PYTHON
