#!/usr/bin/env bash
# SpeechBrain's RelPosMHAXL, attention with relative positions: the last query alone, and as one of all queries.
#
# Guess: the last query alone, with all keys, gets the last row of the attention of all. So one decodes word by word.
# So:    it gets another one. Where query, key and value are equal, in_proj_weight has the rows of query, key and value
#        for one head, then for the next. Where they differ, its thirds are query, key and value of all heads. So other
#        weights are used than were trained. A change of one key by 1e-5 does the same. torch's attention is right.
#        With the rows put in order the last query alone gets the last row.
# In:    speechbrain 1.1.2, speechbrain/nnet/attention.py, RelPosMHAXL.forward
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 HyperPyYAML==1.2.3 scipy==1.17.1 tqdm==4.70.1 sentencepiece==0.2.3 packaging==26.4
install --no-deps speechbrain==1.1.2
# torchaudio reads sound, and its package needs CUDA. Attention needs its version alone.
echo '__version__ = "2.11.0"' > "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torchaudio.py"

python - <<'PYTHON' 2>/dev/null | seen "the last row changes                torch       SpeechBrain
with the last query alone           below 1e-4  above 0.1
with one key other by 1e-5          below 1e-4  above 0.1
with the last query, rows in order              below 1e-4"
import copy

import torch
from speechbrain.nnet.attention import RelPosEncXL, RelPosMHAXL

torch.manual_seed(1)
words = torch.randn(1, 6, 16)
positions = RelPosEncXL(16)(words)
other = words.clone()
other[0, 0, 0] += 1e-5
by_torch = torch.nn.MultiheadAttention(16, 4, batch_first=True)
by_speechbrain = RelPosMHAXL(16, 4)
in_order = copy.deepcopy(by_speechbrain)
with torch.no_grad():  # From 4 heads × query, key, value × 4 channels to query, key, value × 4 heads × 4 channels.
    in_order.in_proj_weight.copy_(in_order.in_proj_weight.view(4, 3, 4, 16).transpose(0, 1).reshape(48, 16))


def last(attention, query, key):
    arguments = () if attention is by_torch else (positions,)
    return attention(query, key, words, *arguments)[0][:, -1]


def change(attention, query, key):
    of = by_speechbrain if attention is in_order else attention
    difference = (last(attention, query, key) - last(of, words, words)).abs().max().item()
    return "below 1e-4" if difference < 1e-4 else "above 0.1" if difference > 0.1 else f"{difference:.1g}"


print("the last row changes                torch       SpeechBrain")
for name, query, key in (("the last query alone", words[:, -1:], words), ("one key other by 1e-5", words, other)):
    print(f"with {name:30} {change(by_torch, query, key)}  {change(by_speechbrain, query, key)}")
print(f"with the last query, rows in order             ", change(in_order, words[:, -1:], words))
PYTHON
