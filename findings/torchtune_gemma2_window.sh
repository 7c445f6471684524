#!/usr/bin/env bash
# Decoding with torchtune's Gemma 2, whose every other layer has a local window.
#
# Guess: with a window of 4 a word sees itself and the 3 before it, in decoding with the cache as in training.
# So:    in decoding a word after the 4th sees the first 4 words, not itself and not the last ones.
#        The code counts the window from the row of the mask, and in decoding the only row is row 0.
#        Texts that are longer than the window, 4096 by default, go on with other words. Without the cache it is right.
# In:    torchtune 0.6.1, torchtune/models/gemma2/_attention.py, Gemma2Attention.forward
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 torchao==0.10.0 torchtune==0.6.1

python - <<'PYTHON' 2>/dev/null | seen "word              1     2     3     4     5     6     7     8
in training       1     12    123   1234  2345  3456  4567  5678
in decoding       1     12    123   1234  1234  1234  1234  1234
generate: the same 16 words with a cache as without
window of 64      True
window of 4       False"
import torch
from torch import nn
from torchtune.generation import generate
from torchtune.models.gemma2 import gemma2
from torchtune.models.gemma2._attention import Gemma2Attention

LENGTH, CACHE = 8, 32
causal = torch.ones(1, CACHE, CACHE, dtype=torch.bool).tril()
# Queries and keys are 0, and the values are the rows of an identity matrix: the output is the weights.
zeros = nn.Linear(LENGTH, LENGTH, bias=False)
nn.init.zeros_(zeros.weight)
attention = Gemma2Attention(
    embed_dim=LENGTH, num_heads=1, num_kv_heads=1, head_dim=LENGTH, q_proj=zeros, k_proj=zeros, v_proj=nn.Identity(),
    output_proj=nn.Identity(), sliding_window_size=4,
)
text = torch.eye(LENGTH)[None]


def report(name, weights):
    seen = ["".join(str(each + 1) for each in row.nonzero().flatten().tolist()) for row in weights[0]]
    print(f"{name:17}", " ".join(f"{each:5}" for each in seen).rstrip())


print("word             ", "     ".join(str(word) for word in range(1, LENGTH + 1)))
report("in training", attention(text, text, mask=causal[:, :LENGTH, :LENGTH]))
attention.setup_cache(1, torch.float32, max_seq_len=CACHE)
steps = [attention(text[:, [t]], text[:, [t]], mask=causal[:, [t]]) for t in range(LENGTH)]
report("in decoding", torch.cat(steps, 1))

print("generate: the same 16 words with a cache as without")
for window in (64, 4):
    torch.manual_seed(4)
    model = gemma2(vocab_size=50, num_layers=2, num_heads=2, head_dim=8, num_kv_heads=2, embed_dim=16,
                   intermediate_dim=32, max_seq_len=CACHE, sliding_window_size=window).eval()
    for parameter in filter(lambda each: each.dim() > 1, model.parameters()):
        nn.init.normal_(parameter, std=0.3)
    prompt, options = torch.arange(1, 7)[None], {"max_generated_tokens": 16, "pad_id": 0, "top_k": 1}
    plain = generate(model, prompt, **options)[0]
    model.setup_caches(1, torch.float32, decoder_max_seq_len=CACHE)
    print(f"window of {window:<7} {torch.equal(generate(model, prompt, **options)[0], plain)}")
PYTHON
