#!/usr/bin/env bash
# How many keys a window of 4 shows.
#
# Guess: the number is the same wherever the option is called a window.
# So:    Mistral's sliding_window=4 shows 4 keys, the query's own among them. ModernBERT's local_attention=4 shows 2 on
#        each side, 5 in all. local-attention's window_size=4 cuts the text in blocks of 4 and shows the own and the last
#        block: 5 keys or 8, by the query's place in its block; with exact_windowsize=True 5 everywhere.
# In:    transformers 5.24.0, masking_utils.py, and models/modernbert/modeling_modernbert.py, class ModernBertAttention;
#        local-attention 1.11.2, local_attention/local_attention.py, LocalAttention.forward
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 local-attention==1.11.2

python - <<'PYTHON' 2>/dev/null | seen "Mistral                  query 8: -3 to 0    query 11: -3 to 0
ModernBERT               query 8: -2 to 2    query 11: -2 to 2
local-attention          query 8: -4 to 0    query 11: -7 to 0
local-attention, exact   query 8: -4 to 0    query 11: -4 to 0"
import torch
from local_attention import LocalAttention
from transformers import MistralConfig, MistralModel, ModernBertConfig, ModernBertModel

torch.manual_seed(1)
LENGTH = 16


def seen(output, inputs, query):
    """Return the first and the last key, relative to the query, on which its output depends."""
    (gradient,) = torch.autograd.grad(output[query].sin().sum(), inputs, retain_graph=True)
    keys = gradient.abs().sum(-1).flatten().nonzero().flatten() - query
    return f"query {query}: {keys.min()} to {keys.max()}"


def report(name, output, inputs):
    print(f"{name:24} {seen(output, inputs, 8)}    {seen(output, inputs, 11)}")


sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=20)
tokens = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
models = {
    "Mistral": MistralModel(MistralConfig(**sizes, num_key_value_heads=2, sliding_window=4)),
    "ModernBERT": ModernBertModel(
        ModernBertConfig(**sizes, **tokens, local_attention=4, layer_types=["sliding_attention"])
    ),
}
for name, model in models.items():
    inputs = torch.randn(1, LENGTH, 16, requires_grad=True)
    report(name, model.eval()(inputs_embeds=inputs).last_hidden_state[0], inputs)
for name, exact in (("local-attention", False), ("local-attention, exact", True)):
    query, key, values = (torch.randn(1, 1, LENGTH, 8, requires_grad=True) for _ in range(3))
    attention = LocalAttention(window_size=4, causal=True, exact_windowsize=exact, use_rotary_pos_emb=False)
    report(name, attention(query, key, values)[0, 0], values)
PYTHON
