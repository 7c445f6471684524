#!/usr/bin/env bash
# Training a compressive transformer of compressive-transformer-pytorch: the projection to keys and values.
#
# Guess: all weights are trained until the end. The loss of the compressed memory alone leaves attention as it is.
# So:    the projection to keys and values is trained until the memory is compressed for the first time, and never
#        again. Here that is the second segment of the first text. The layer detaches the weight for the loss of the
#        compressed memory, but in place: requires_grad ends for good, before this segment's gradients. There is no
#        error. The optimizer passes over the weight.
# In:    compressive-transformer-pytorch 0.4.0, compressive_transformer_pytorch.py, SelfAttention.forward, detach_()
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 mogrifier==0.0.5 compressive-transformer-pytorch==0.4.0

python - <<'PYTHON' 2>/dev/null | seen "slope of the loss, by two passes and by .grad
            to_q               to_kv              to_out
segment 1    0.0092   0.0092   -0.0496  -0.0496    0.0438   0.0438
segment 2   -0.0041  -0.0041   -0.0089     none   -0.0725  -0.0725
segment 3   -0.0125  -0.0125    0.0137     none    0.0337   0.0337
segment 4   -0.0307  -0.0307    0.0248     none    0.0058   0.0058
to_q   moves in updates 1 to 8: yes yes yes yes yes yes yes yes
to_kv  moves in updates 1 to 8: yes no no no no no no no
to_out moves in updates 1 to 8: yes yes yes yes yes yes yes yes"
import torch
from compressive_transformer_pytorch import AutoregressiveWrapper, CompressiveTransformer

SEGMENTS, LENGTH, STEP = 4, 4, 1e-6


def new():
    """Return a small model in float64 without dropout."""
    torch.manual_seed(1)
    sizes = dict(num_tokens=30, dim=16, seq_len=LENGTH, mem_len=LENGTH, cmem_len=LENGTH, cmem_ratio=2, depth=1, heads=2)
    model = CompressiveTransformer(**sizes).double()
    return model, torch.randint(30, (2, SEGMENTS * LENGTH + 1))


def weights(model):
    """Return the projections of the only layer."""
    attention = model.attn_layers[0].fn.fn
    return {"to_q": attention.to_q.weight, "to_kv": attention.to_kv.weight, "to_out": attention.to_out.weight}


def loss(model, words, targets, memories):
    """Return the loss of a segment and the memories after it."""
    logits, memories, _ = model(words, memories=memories)
    return torch.nn.functional.cross_entropy(logits.mT, targets), memories


def difference(model, weight, direction, *segment):
    """Return the slope of the loss along a direction, from two passes (in evaluation, which computes the same)."""
    model.eval()
    losses = []
    with torch.no_grad():
        for step in (STEP, -2 * STEP):
            weight.add_(step * direction)
            losses.append(loss(model, *segment)[0].item())
        weight.add_(STEP * direction)
    model.train()
    return (losses[0] - losses[1]) / (2 * STEP)


model, text = new()
print("slope of the loss, by two passes and by .grad")
print("            " + "".join(f"{name:19}" for name in weights(model)).rstrip())
memories = None
for number, (words, targets) in enumerate(zip(text[:, :-1].split(LENGTH, 1), text[:, 1:].split(LENGTH, 1)), 1):
    directions = {name: torch.randn_like(weight) for name, weight in weights(model).items()}
    slopes = [difference(model, w, directions[name], words, targets, memories) for name, w in weights(model).items()]
    model.zero_grad()
    value, memories = loss(model, words, targets, memories)
    value.backward()
    row = f"segment {number}"
    for slope, (name, weight) in zip(slopes, weights(model).items()):
        gradient = "none" if weight.grad is None else f"{(weight.grad * directions[name]).sum():.4f}"
        row += f"   {slope:7.4f} {gradient:>8}"
    print(row)

model, text = new()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
moves = {name: [] for name in weights(model)}
for _ in range(2):  # As its README trains: an update after each segment.
    for value, memory_loss, _ in AutoregressiveWrapper(model)(text, return_loss=True):
        optimizer.zero_grad()
        (value + memory_loss).backward()
        before = {name: weight.clone() for name, weight in weights(model).items()}
        optimizer.step()
        for name, weight in weights(model).items():
            moves[name].append("yes" if (weight != before[name]).any() else "no")
for name, each in moves.items():
    print(f"{name:6} moves in updates 1 to 8: {' '.join(each)}")
PYTHON
