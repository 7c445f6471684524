#!/usr/bin/env bash
# Paddle's cross entropy with label smoothing and an index for padding, as one trains translation.
#
# Guess: the mean of the smoothed losses of the words that are not padding, as in torch. Padding gets no gradient.
# So:    with both options padding counts as a word, and the mean is divided by the size of the vocabulary as well.
#        The loss of three words and one padding, with 8 in the vocabulary, is the sum of four losses over 32. The
#        gradients shrink alike, and padding gets some. No warning is given. Either option alone is right.
#        reduction="none" and a mask of one's own serve for both.
# In:    paddlepaddle 3.3.1, paddle/nn/functional/loss.py, cross_entropy, of which CrossEntropyLoss makes use. It turns
#        labels into smoothed distributions, and compares the probabilities in them with ignore_index.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 paddlepaddle==3.3.1

python - <<'PYTHON' 2>/dev/null | seen "loss                       defined   torch    paddle    gradients of padding
neither                    2.9447    2.9447   2.9447    torch paddle
label_smoothing=.1         2.8948    2.8948   2.8948    torch paddle
ignore_index=0             2.1718    2.1718   2.1718    -
both                       2.1799    2.1799   0.3618    paddle
both, a vocabulary of 80   4.9069    4.9069   0.0607    paddle"
import numpy as np
import paddle
import torch


def by_definition(logits, words, smoothing, padding):
    """Return the mean, without padding, of the cross entropy to 1 - s of the word and s of all words evenly."""
    logarithms = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    losses = [-(1 - smoothing) * row[word] - smoothing * row.mean() for row, word in zip(logarithms, words)]
    return np.mean([loss for loss, word in zip(losses, words) if word != padding])


print("loss                       defined   torch    paddle    gradients of padding")
words = np.array([1, 2, 3, 0])
smoothing, padding = {"label_smoothing": .1}, {"ignore_index": 0}
for name, options, vocabulary in (
        ("neither", {}, 8), ("label_smoothing=.1", smoothing, 8), ("ignore_index=0", padding, 8),
        ("both", smoothing | padding, 8), ("both, a vocabulary of 80", smoothing | padding, 80)):
    logits = np.random.default_rng(1).standard_normal((4, vocabulary))
    inputs = {"torch": torch.tensor(logits, requires_grad=True),
              "paddle": paddle.to_tensor(logits, stop_gradient=False)}
    losses = [
        torch.nn.functional.cross_entropy(inputs["torch"], torch.tensor(words), **options),
        paddle.nn.functional.cross_entropy(inputs["paddle"], paddle.to_tensor(words), **options)]
    for loss in losses:
        loss.backward()
    given = [library for library, each in inputs.items() if abs(each.grad.numpy()[3]).sum() > 1e-9]
    reference = by_definition(logits, words, options.get("label_smoothing", 0), options.get("ignore_index"))
    print(f"{name:26} {reference:.4f}    {losses[0].item():.4f}   {losses[1].item():.4f}   ", *given or "-")
PYTHON
