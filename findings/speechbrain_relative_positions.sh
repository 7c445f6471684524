#!/usr/bin/env bash
# SpeechBrain's Transformer with relative positions, RelPosMHAXL (after Transformer-XL, Dai et al. 2019), in an encoder.
#
# Guess: a word two to the left and one two to the right have other positions: "dog bites man" is not "man bites dog".
# So:    they have the same: sines of the distance without its sign. A sentence read backwards gets the same vectors
#        backwards, and the same mean. Conformers, whose default it is, have order from their convolutions alone.
#        With sines of signed distances, as in the paper, the same encoder tells the two apart.
# In:    speechbrain 1.1.2, speechbrain/nnet/attention.py, RelPosEncXL.make_pe (issue 3070 there)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 HyperPyYAML==1.2.3 scipy==1.17.1 tqdm==4.70.1 sentencepiece==0.2.3 packaging==26.4
install --no-deps speechbrain==1.1.2
# torchaudio reads sound, and its package needs CUDA. Attention needs its version alone.
echo '__version__ = "2.11.0"' > "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torchaudio.py"

python - <<'PYTHON' 2>/dev/null | seen "                                SpeechBrain  signed
distances 2 to 1, -1 to -2      equal        unequal
vectors, one of them backwards  equal        unequal
means of the vectors            equal        unequal"
import torch
from speechbrain.lobes.models.transformer.Transformer import TransformerEncoder
from speechbrain.nnet.attention import RelPosEncXL

torch.manual_seed(1)
encoder = TransformerEncoder(
    num_layers=2, nhead=2, d_ffn=16, d_model=16, attention_type="RelPosMHAXL"
).eval()
dog_bites_man = torch.randn(1, 3, 16)
man_bites_dog = dog_bites_man.flip(1)
positions = RelPosEncXL(16)(dog_bites_man)  # Distances 2, 1, 0, -1, -2, in sines and cosines by turns.
signed = positions.clone()
signed[:, 3:, 0::2] *= -1


def compare(positions):
    with torch.no_grad():
        one, other = (encoder(words, pos_embs=positions)[0] for words in (dog_bites_man, man_bites_dog))
    pairs = (positions[:, :2], positions[:, 3:].flip(1)), (one, other.flip(1)), (one.mean(1), other.mean(1))
    return ["equal" if torch.allclose(first, second, atol=1e-5) else "unequal" for first, second in pairs]


print("                                SpeechBrain  signed")
names = "distances 2 to 1, -1 to -2", "vectors, one of them backwards", "means of the vectors"
for name, ours, right in zip(names, compare(positions), compare(signed)):
    print(f"{name:30}  {ours:12} {right}")
PYTHON
