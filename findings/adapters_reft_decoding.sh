#!/usr/bin/env bash
# LoReFT of AdapterHub's adapters, which changes the hidden states of a text's first three words, in decoding.
#
# Guess: decoding with a cache of keys, the default of generate, gives the outputs of a pass over the whole text, as in
#        training.
# So:    with a cache each new word counts as the first of its text, and is changed. In training none of these words is.
#        So generate with use_cache=False writes another text.
# In:    adapters 1.3.0, methods/reft.py, ReftModule._gather_adapted_states: places are counted in the words of the call
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==4.57.6 adapters==1.3.0

python - <<'PYTHON' 2>/dev/null | seen "words 1 to 8, of which 1 to 5 are a prompt
changed in a pass over all words    1 2 3
changed in decoding with a cache    1 2 3 6 7 8
generate writes equal texts with and without a cache: False, without LoReFT: True"
import adapters
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(1)
SIZES = dict(vocab_size=50, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None)
model = GPT2LMHeadModel(GPT2Config(**SIZES)).eval()
for parameter in model.parameters():
    torch.nn.init.normal_(parameter, std=0.5)
words = torch.arange(8)[None]


@torch.no_grad()
def whole():
    return model.transformer(words).last_hidden_state[0]


@torch.no_grad()
def cached():
    states, cache = [], None
    for part in (words[:, :5], *words[:, 5:].split(1, dim=1)):
        output = model.transformer(part, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        states.append(output.last_hidden_state[0])
    return torch.cat(states)


def texts_equal():
    options = dict(max_new_tokens=20, do_sample=False, attention_mask=torch.ones_like(words), pad_token_id=0)
    return torch.equal(model.generate(words, **options), model.generate(words, **options, use_cache=False))


before, equal_before = (whole(), cached()), texts_equal()
adapters.init(model)
model.add_adapter("trained", config=adapters.LoReftConfig())
model.set_active_adapters("trained")
for name, parameter in model.named_parameters():
    if "reft" in name and "learned_source" in name:
        torch.nn.init.normal_(parameter, std=2.0)
model.eval()
print("words 1 to 8, of which 1 to 5 are a prompt")
for name, old, new in zip(("a pass over all words   ", "decoding with a cache   "), before, (whole(), cached())):
    changed = ((new - old).abs().amax(-1) > 1e-4).nonzero().flatten() + 1
    print(f"changed in {name} {' '.join(str(int(each)) for each in changed)}")
print(f"generate writes equal texts with and without a cache: {texts_equal()}, without LoReFT: {equal_before}")
PYTHON
