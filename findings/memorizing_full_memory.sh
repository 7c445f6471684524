#!/usr/bin/env bash
# The memory of memorizing-transformers-pytorch, once it is full.
#
# Guess: a full memory throws out the oldest words, as its README says. The key of a word that is kept finds its value.
# So:    the search starts anew at the word that does not fit, the table of values does not: a key finds another word's
#        value, where the limit is no multiple of the segment. All words before are forgotten, and the next search finds
#        nothing at all. A segment for one text of the batch alone shifts the values of the other texts too.
# In:    memorizing-transformers-pytorch 0.4.1, knn_memory.py, KNN.add (reset) and KNNMemory.add (db_offsets)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 einops-exts==0.0.4 filelock==4.3.1 joblib==1.6.0 faiss-cpu==1.15.1
install --no-deps memorizing-transformers-pytorch==0.4.1

python - <<'PYTHON' 2>/dev/null | seen "limit 12, 12 words: keys  1-12 find values  1  2  3  4  5  6  7  8  9 10 11 12
limit 12, 16 words: keys  5-16 find values  -  -  -  -  -  -  -  -  -  -  -  -
limit 12, 20 words: keys  9-20 find values 16 14 18 15 13 14 15 16 17 18 19 20
limit 12, 24 words: keys 13-24 find values 13 14 15 16 17 18 19 20 21 22 23 24
limit 10, 12 words: keys  3-12 find values  -  -  -  -  -  -  -  -  -  -
limit 10, 16 words: keys  7-16 find values 16 13 11 12 13 14 15 16  7  8
limit 10, 20 words: keys 11-20 find values 13 14 15 16 17 18 19 20 11 12
limit 10, 24 words: keys 15-24 find values  -  -  -  -  -  -  -  -  -  -
4 words of text 2, after 4 of text 1 alone: keys 1-4 find values  0  0  0  0"
import torch
from memorizing_transformers_pytorch import KNNMemory

SEGMENT, WIDTH, WORDS = 4, 32, 24
torch.manual_seed(1)
keys = torch.nn.functional.normalize(torch.randn(2, WORDS, WIDTH), dim=-1)
values = torch.arange(1, WORDS + 1.0)[:, None].expand(2, WORDS, WIDTH)
pairs = torch.stack((keys, values), 2)


def build(limit):
    """Return an empty memory for two texts."""
    return KNNMemory(WIDTH, max_memories=limit, num_indices=2, memmap_filename=f"memory{limit}", multiprocessing=False)


def found(memory, start, end, text=0):
    """Return the values that the keys of these words of a text find, with a dash for none."""
    (pairs,), mask = (x[text : text + 1] for x in memory.search(keys[:, start:end], topk=1))
    return " ".join(f"{value:2.0f}" if hit else " -" for value, hit in zip(pairs[:, 0, 1, 0], mask[0, :, 0]))


for limit in (12, 10):
    memory = build(limit)
    for end in range(SEGMENT, WORDS + 1, SEGMENT):
        memory.add(pairs[:, end - SEGMENT : end])
        if end > 8:
            start = max(end - limit, 0)
            numbers = found(memory, start, end)
            print(f"limit {limit}, {end} words: keys {start + 1:2}-{end} find values {numbers}")
memory = build(20)
with memory.at_batch_indices([0]):
    memory.add(pairs[:1, :4])
memory.add(pairs[:, :4])
print(f"4 words of text 2, after 4 of text 1 alone: keys 1-4 find values {found(memory, 0, 4, 1)}")
PYTHON
