#!/usr/bin/env bash
# Greedy decoding by LocalTransformer of local-attention, with its cache (the default) and without.
#
# Guess: a step with the cache has the logits of one pass over the whole text.
# So:    from the third new word on it has not. Each step turns the cached keys by RoPE and keeps them turned, and the
#        next step turns them again. generate gives other words than the model would, without an error.
#        use_kv_cache=False is right, and so is use_dynamic_pos_bias=True, which has no RoPE.
# In:    local-attention 1.11.2, local_attention/transformer.py, LocalMHA.forward and LocalTransformer.generate
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 local-attention==1.11.2

python - <<'PYTHON' 2>/dev/null | seen "as by one pass                logits of new words 1 to 6           words
without a cache               True  True  True  True  True  True   True
cache                         True  True  False False False False  False
cache, use_xpos               True  True  False False False False  False
cache, use_dynamic_pos_bias   True  True  True  True  True  True   True
key of the prompt's last word in the cache, step by step: turned by 0, 3, 5, 6 positions"
import torch
from local_attention import LocalTransformer

NEW, HEAD, prompt = 6, 8, torch.arange(1, 6)[None]


def decode(model, cached):
    """Return the greedy words of passes without a cache, whether the logits are equal, and the first layer's keys."""
    words, cache, equal, keys = prompt, None, [], []
    for _ in range(NEW):
        whole = model(words)[:, -1]
        logits, new = model(words, cache=cache, return_cache=True)
        cache = new if cached else None
        equal.append(torch.allclose(logits[:, -1], whole, atol=1e-3))
        keys.append(new.cache_kv[0][0])
        words = torch.cat([words, whole.argmax(-1)[:, None]], 1)
    return words[:, 5:], equal, keys


def turned_by(key, plain):
    """Return the position for which RoPE makes key of plain: it turns channel c together with c + HEAD/2."""
    angles = torch.arange(20)[:, None] * 10000 ** (-torch.arange(0, HEAD, 2) / HEAD)
    turned = torch.complex(*plain.chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)
    return str((turned - torch.complex(*key.chunk(2, -1))).abs().sum(-1).argmin().item())


print("as by one pass                logits of new words 1 to 6           words")
for name, options in (("without a cache", {}), ("cache", {}), ("cache, use_xpos", {"use_xpos": True}),
                      ("cache, use_dynamic_pos_bias", {"use_dynamic_pos_bias": True})):
    torch.manual_seed(1)
    model = LocalTransformer(num_tokens=30, max_seq_len=32, dim=16, depth=2, heads=2, dim_head=HEAD,
                             local_attn_window_size=4, **options).eval()
    for parameter in filter(lambda each: each.dim() > 1, model.parameters()):
        torch.nn.init.normal_(parameter, std=.5)
    cached = "without" not in name
    with torch.no_grad():
        words, equal, keys = decode(model, cached)
        same = torch.equal(model.generate(prompt, NEW, temperature=0.0, use_kv_cache=cached), words)
    print(f"{name:29}", " ".join(f"{each!s:5}" for each in equal), "", same)
    if name == "cache":  # Each step drops the oldest key, so that the prompt's last one moves one place ahead.
        turns = ", ".join(turned_by(keys[step][0, 0, 4 - step], keys[0][0, 0, 4]) for step in range(4))
print(f"key of the prompt's last word in the cache, step by step: turned by {turns} positions")
PYTHON
