#!/usr/bin/env bash
# Relative positions in memorizing-transformers-pytorch with memories of Transformer-XL.
#
# Guess: a segment with the memories of the segment before it has the outputs of one pass over both, in one layer.
# So:    a query's place is counted from the start of the memories, and distances below zero are taken as zero. With
#        memories as long as a segment, all words of the own segment have distance 0: their order is lost, and nothing
#        else gives it. Layers without memories lose it too. x-transformers mended the same fault in 2022.
# In:    memorizing-transformers-pytorch 0.4.1, memorizing_transformers_pytorch.py,
#        T5RelativePositionBias.forward (q_pos)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 einops-exts==0.0.4 filelock==4.3.1 joblib==1.6.0 faiss-cpu==1.15.1
install --no-deps memorizing-transformers-pytorch==0.4.1

python - <<'PYTHON' 2>/dev/null | seen "first  segment: difference to one pass over both 0.00
first  segment: its last output changes if the words before are reversed by 0.58
second segment: difference to one pass over both 0.54
second segment: its last output changes if the words before are reversed by 0.00
second segment: a layer without memories changes, as the next layer has some, by 0.82"
import torch
from memorizing_transformers_pytorch import MemorizingTransformer

WORDS = 8
torch.manual_seed(1)
text = torch.randint(50, (1, 2 * WORDS))


def build(**options):
    """Return a model whose memories are those of Transformer-XL alone."""
    torch.manual_seed(1)
    sizes = dict(num_tokens=50, dim=32, dim_head=16, heads=2, memorizing_layers=())
    return MemorizingTransformer(**sizes, xl_max_memories=WORDS, **options).double().eval()


@torch.no_grad()
def run(model, words, memories=(None,)):
    """Return the logits and the memories for the next segment."""
    return model(words, [], xl_memories=memories)


model = build(depth=1)
first, second = text[:, :WORDS], text[:, WORDS:]
whole, _ = run(model, text)
for name, segment, memories in (("first", first, (None,)), ("second", second, run(model, first)[1])):
    found, _ = run(model, segment, memories)
    right = whole[:, :WORDS] if name == "first" else whole[:, WORDS:]
    swapped = torch.cat((segment[:, :-1].flip(1), segment[:, -1:]), 1)
    other, _ = run(model, swapped, memories)
    print(f"{name:6} segment: difference to one pass over both {(found - right).abs().max():.2f}")
    change = (found - other)[:, -1].abs().max()
    print(f"{name:6} segment: its last output changes if the words before are reversed by {change:.2f}")
model = build(depth=2, xl_memory_layers=(2,))
outputs = []
model.layers[0][0].register_forward_hook(lambda layer, inputs, output: outputs.append(output[0]))
run(model, second)
run(model, second, run(model, first)[1])
difference = (outputs[0] - outputs[2]).abs().max()
print(f"second segment: a layer without memories changes, as the next layer has some, by {difference:.2f}")
PYTHON
