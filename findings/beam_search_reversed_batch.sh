#!/usr/bin/env bash
# The LSTM of pytorch-beam-search that reads the source in reverse order.
#
# Guess: ReversingLSTM reverses the words of each source sentence, as its documentation says.
# So:    it reverses the sentences of the batch: the first is translated from the last one's source, and is trained on
#        it. Words keep their order. Only a sentence alone in its batch is translated from its own source.
# In:    pytorch-beam-search 1.2.2, seq2seq/models.py, ReversingLSTM.forward (torch.flip of X.T, along dimension 1)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 pandas==3.1.1 nltk==3.10.4 tqdm==4.70.1 pytorch-beam-search==1.2.2

python - <<'PYTHON' 2>/dev/null | seen "translations of a batch of four, and the sources they are made from:
LSTM         : sentence 1 from 1, 2 from 2, 3 from 3, 4 from 4; words are read in the order <START> a b c <END>
ReversingLSTM: sentence 4 from 1, 3 from 2, 2 from 3, 1 from 4; words are read in the order <START> a b c <END>
Transformer  : sentence 1 from 1, 2 from 2, 3 from 3, 4 from 4; words are read in the order <START> a b c <END>"
from contextlib import redirect_stdout
from os import devnull

import torch
from pytorch_beam_search import seq2seq

SENTENCES = ["abc", "bca", "cab", "acb"]
index = seq2seq.Index(SENTENCES)
sources = index.text2tensor(SENTENCES)
starts = torch.ones(len(SENTENCES), 1, dtype=torch.long)
print("translations of a batch of four, and the sources they are made from:")
for kind in (seq2seq.LSTM, seq2seq.ReversingLSTM, seq2seq.Transformer):
    torch.manual_seed(1)
    with redirect_stdout(open(devnull, "w")):
        model = kind(index, index).eval()
    read = []
    model.source_embeddings.register_forward_hook(lambda layer, inputs, output: read.append(inputs[0].flatten()))
    with torch.no_grad():
        outputs = model(sources, starts)
        found = []
        for changed in range(len(SENTENCES)):
            others = sources.clone()
            others[changed] = sources[changed].flip(0)
            places = (model(others, starts) - outputs).abs().sum((1, 2)).nonzero().flatten() + 1
            found.append(f"{' '.join(map(str, places.tolist()))} from {changed + 1}")
        model(sources[:1], starts[:1])
    words = " ".join(index.idx2voc[word] for word in read[-1].tolist())
    print(f"{kind.__name__:13}: sentence {', '.join(found)}; words are read in the order {words}")
PYTHON
