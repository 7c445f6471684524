#!/usr/bin/env bash
# recurrent-memory-transformer-pytorch: the keys and values of the segment before (XL memories, on by default).
#
# Guess: a segment sees them in training, in evaluation and in generation alike.
# So:    with RecurrentMemoryTransformerWrapper only generation gives them to the next segment. The loss of
#        return_loss=True and the logits of evaluation are without. With memory_replay_backprop=True the loss is a
#        third one: segments see keys and values, but those of a pass without. From the second segment on generation
#        gives words that the trained and evaluated model does not predict. use_xl_memories=False is consistent.
# In:    recurrent-memory-transformer-pytorch 0.7.0, recurrent_memory_transformer.py,
#        RecurrentMemoryTransformerWrapper.forward, which does not pass xl_memories on, and generate, which does
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 packaging==25.0 torch-einops-utils==0.2.0 hyper-connections==0.4.11
install --no-deps recurrent-memory-transformer-pytorch==0.7.0

python - <<'PYTHON' 2>/dev/null | seen "use_xl_memories=True                   loss    next words of places 1 to 12
  by segments, with XL memories        5.421    1  6 18 28  3 18 28 18  1 26 25 26
  by segments, without                 5.472    1  6 18 28 11 18 18 28 12 16 25 26
  return_loss=True                     5.472
  memory_replay_backprop=True          5.410
  evaluation                           5.472    1  6 18 28 11 18 18 28 12 16 25 26
  generate                                      1  6 18 28  3 18 28 18  1 26 25 26
use_xl_memories=False                  loss    next words of places 1 to 12
  by segments                          5.472    1  6 18 28 11 18 18 28 12 16 25 26
  generate                                      1  6 18 28 11 18 18 28 12 16 25 26"
import torch
from recurrent_memory_transformer_pytorch import RecurrentMemoryTransformer, RecurrentMemoryTransformerWrapper

LENGTH, WORDS = 4, 13
text = torch.randint(30, (1, WORDS), generator=torch.Generator().manual_seed(1))


def by_segments(model, xl):
    """Return the logits of one segment after the other, with XL memories passed on or not."""
    memories, xl_memories, logits = None, None, []
    for segment in text[:, :-1].split(LENGTH, 1):
        output, memories, new = model(segment, memories, xl_memories=xl_memories)
        xl_memories = new if xl else None
        logits.append(output)
    return torch.cat(logits, 1)


def loss(logits):
    """Return the mean loss of all words."""
    return f"{torch.nn.functional.cross_entropy(logits.mT, text[:, 1:]).item():.3f}"


def words(logits):
    """Return the most probable next words."""
    return " ".join(f"{word:2}" for word in logits[0].argmax(-1).tolist())


for xl in (True, False):
    torch.manual_seed(1)
    sizes = dict(num_tokens=30, num_memory_tokens=2, dim=16, depth=2, dim_head=8, heads=2, seq_len=LENGTH)
    model = RecurrentMemoryTransformer(**sizes, use_xl_memories=xl).eval()
    for parameter in filter(lambda each: each.dim() == 2, model.parameters()):
        torch.nn.init.normal_(parameter, std=0.5)
    wrapper = RecurrentMemoryTransformerWrapper(model)
    replayed = wrapper(text, memory_replay_backprop=True).item()
    with torch.no_grad():
        trained, (logits, _) = wrapper(text, return_loss=True)[0].item(), wrapper(text[:, :-1])
        generated = [wrapper.generate(text[:, :n], length=n + 1, temperature=0.0).item() for n in range(1, WORDS)]
        rows = [("by segments, with XL memories", loss(by_segments(model, True)), words(by_segments(model, True)))]
        rows += [("by segments, without", loss(by_segments(model, False)), words(by_segments(model, False)))]
    rows += [("return_loss=True", f"{trained:.3f}", ""), ("memory_replay_backprop=True", f"{replayed:.3f}", "")]
    rows += [("evaluation", loss(logits), words(logits))]
    rows += [("generate", "", " ".join(f"{word:2}" for word in generated))]
    print(f"use_xl_memories={xl!s:22} loss    next words of places 1 to {WORDS - 1}")
    for name, value, predicted in rows if xl else (("by segments", *rows[1][1:]), rows[-1]):
        print(f"  {name:36} {value:7} {predicted}".rstrip())
PYTHON
