#!/usr/bin/env bash
# UniPELT of AdapterHub's adapters in a decoder, here GPT-2: gates that weigh the trained parts.
#
# Guess: a word's output depends on the words before it, as with LoRA alone.
# So:    a gate is the mean over all words of the text. Each word sees the words that it predicts, in training and in
#        perplexity; in decoding it does not. Padding counts in the mean: a sentence differs with its batch.
# In:    adapters 1.3.0, torch.mean(gate, dim=1) at use_gating: methods/lora.py, methods/modeling.py, class Adapter, and
#        methods/prefix_tuning.py
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==4.57.6 adapters==1.3.0

python - <<'PYTHON' 2>/dev/null | seen "              words that word 2 of 5 sees   words 1 to 5 with two of padding
LoRA          1 2                           equal
LoRA, gated   1 2 3 4 5                     differ by 0.3 %
UniPELT       1 2 3 4 5                     differ by 2.0 %"
import adapters
import torch
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = dict(vocab_size=20, n_positions=32, n_embd=32, n_layer=2, n_head=2, attn_implementation="eager")
words = torch.arange(5)[None]

print("              words that word 2 of 5 sees   words 1 to 5 with two of padding")
for name, config in (
    ("LoRA", adapters.LoRAConfig()),
    ("LoRA, gated", adapters.LoRAConfig(use_gating=True)),
    ("UniPELT", adapters.UniPELTConfig()),
):
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(**SIZES))
    adapters.init(model)
    model.add_adapter("trained", config=config)
    model.set_active_adapters("trained")
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.eval()
    with torch.no_grad():
        output = model(words, attention_mask=torch.ones(1, 5)).logits[0]
        changed = [model(words + 10 * (words == i), attention_mask=torch.ones(1, 5)).logits[0] for i in range(5)]
        mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0]])
        padded = model(torch.cat([words, torch.zeros(1, 2, dtype=int)], 1), attention_mask=mask).logits[0, :5]
    seen = " ".join(str(i + 1) for i in range(5) if (changed[i][1] - output[1]).abs().max() > 1e-4)
    error = ((padded - output).norm() / output.norm()).item()
    print(f"{name:14}{seen:30}{'equal' if error < 1e-4 else f'differ by {100 * error:.1f} %'}")
PYTHON
