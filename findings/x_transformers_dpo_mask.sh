#!/usr/bin/env bash
# Which words count in the preference loss (DPO) of x-transformers.
#
# Guess: the log-probabilities of the words of both answers count, those of the prompt and of padding do not.
# So:    the masks are one place off: the first word of an answer is left out, and the first padding after it counts.
#        Two answers of one word each have no gradient for their words, and one for padding.
# In:    x-transformers 2.31.10, dpo.py, masked_mean (mask[:, :-1], where log-probabilities begin with the second word)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 x-transformers==2.31.10

python - <<'PYTHON' 2>/dev/null | seen "answer 7 8 9 padding padding : words that count: 8 9 padding  right: 7 8 9
answer 7 8 9                 : words that count: 8 9          right: 7 8 9
answer 7 padding padding     : words that count: padding      right: 7"
import torch
from x_transformers import DPO, Decoder, TransformerWrapper

PAD = 0
torch.manual_seed(1)
decoder = Decoder(dim=32, depth=1, heads=2, rotary_pos_emb=True)
model = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=decoder)
dpo = DPO(model, pad_id=PAD)
logits = []
dpo.policy_model.register_forward_hook(lambda module, inputs, output: logits.append(output) or output.retain_grad())


def counted(answer):
    """Return the words of a padded answer after the prompt 3 4 5 whose logits get gradients."""
    preferred = torch.tensor([[3, 4, 5, *answer]])
    other = torch.tensor([[3, 4, 5, *answer[:1], 19, *answer[2:]]])
    logits.clear()
    dpo(preferred, other, prompt_mask=torch.arange(len(preferred[0]))[None] < 3).backward()
    places = logits[0].grad[0].abs().sum(-1) > 0
    return " ".join("padding" if word == PAD else str(word) for word in preferred[0, 1:][places].tolist())


for answer in ([7, 8, 9, PAD, PAD], [7, 8, 9], [7, PAD, PAD]):
    right = " ".join(str(word) for word in answer if word != PAD)
    words = " ".join("padding" if word == PAD else str(word) for word in answer)
    print(f"answer {words:22}: words that count: {counted(answer):12} right: {right}")
PYTHON
