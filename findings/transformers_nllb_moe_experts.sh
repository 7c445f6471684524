#!/usr/bin/env bash
# Experts of NLLB-MoE in transformers: which of them compute the output.
#
# Guess: the two that the router finds best for a word, as in NLLB: of 8 experts each serves some of the words.
# So:    experts 0 and 1 serve all words, and no other expert is used: expert 1 with the weight of the best, expert 0
#        with that of the second. There is no error. In training the other experts get no gradients.
#        The router's mask of the best expert is of zeros and ones, and is read as a list of experts' numbers.
# In:    transformers 5.24.0, models/nllb_moe/modeling_nllb_moe.py, NllbMoeExperts.forward
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0

python - <<'PYTHON' 2>/dev/null | seen "expert                             0    1    2    3    4    5    6    7
words that the router sends it    50   51   50   49   52   47   35   66
words that change without it     200  200    0    0    0    0    0    0
it has gradients                 yes  yes   no   no   no   no   no   no
largest difference from the two best experts 1.093, from experts 1 and 0 0.000"
import numpy as np
import torch
from transformers import NllbMoeConfig
from transformers.models.nllb_moe.modeling_nllb_moe import NllbMoeSparseMLP

torch.manual_seed(1)
layer = NllbMoeSparseMLP(NllbMoeConfig(d_model=16, num_experts=8, moe_token_dropout=0.0), 32).eval()
words = torch.randn(1, 200, 16)
experts = list(layer.experts.values())[:8]
output = layer(words)[0]
output.square().sum().backward()


def numbers(parameter):
    return parameter.detach().numpy().astype("float64")


def of_expert(expert):
    """Return what an expert makes of each word."""
    hidden = np.maximum(numbers(words)[0] @ numbers(expert.fc1.weight).T + numbers(expert.fc1.bias), 0)
    return hidden @ numbers(expert.fc2.weight).T + numbers(expert.fc2.bias)


scores = np.exp(numbers(words)[0] @ numbers(layer.router.classifier.weight).T)
best = np.argsort(-scores)[:, :2]
weights = np.take_along_axis(scores, best, 1)
weights /= weights.sum(1, keepdims=True)
results = np.stack([of_expert(each) for each in experts])
rows = np.arange(200)
right = sum(weights[:, [i]] * results[best[:, i], rows] for i in (0, 1))
wrong = weights[:, [0]] * results[1] + weights[:, [1]] * results[0]

changed, gradients = [], []
for expert in experts:
    gradients.append("no" if expert.fc1.weight.grad is None else "yes")
    kept = expert.fc2.bias.data.clone()
    expert.fc2.bias.data += 1
    changed.append(((layer(words)[0] - output).abs().max(1).values > 1e-6).sum().item())
    expert.fc2.bias.data = kept

print("expert                         " + "".join(f"{i:5}" for i in range(8)))
print("words that the router sends it " + "".join(f"{each:5}" for each in np.bincount(best.flatten(), minlength=8)))
print("words that change without it   " + "".join(f"{each:5}" for each in changed))
print("it has gradients               " + "".join(f"{each:>5}" for each in gradients))
differences = [np.abs(numbers(output) - each).max() for each in (right, wrong)]
print("largest difference from the two best experts {:.3f}, from experts 1 and 0 {:.3f}".format(*differences))
PYTHON
