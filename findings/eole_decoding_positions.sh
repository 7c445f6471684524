#!/usr/bin/env bash
# Decoding word by word in eole, against a pass over the whole sentence, as in training.
#
# Guess: both give the same hidden states, whatever encodes the positions: the cache of keys only saves work.
# So:    with relative positions, Shaw's or T5's buckets, decoding measures distances from the end of the cache. The
#        cache grows by 32 empty places at once, so that only words 1, 33 and 65 are right.
#        ALiBi is right in a new process, and wrong after a pass over a sentence at least as long as the cache. Training
#        makes such passes before it translates a validation set, and so does the scoring of references. Each step then
#        has the biases of the first word, which favour the oldest words.
# In:    eole 0.6.4, eole/modules/multi_headed_attn.py, MultiHeadedAttention._compute_attention (key_len, q_len);
#        eole/modules/alibi_position_bias.py, AlibiPositionalBias.forward, which OpenNMT-py 3.5.1 has too
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 pydantic==2.14.4 PyYAML==6.0.4
install --no-deps eole==0.6.4

python - <<'PYTHON' 2>/dev/null | seen "positions          right words in a new process  after a whole sentence
rotary             all                           all
window of 5        all                           all
ALiBi              all                           [1]
Shaw, up to 8      [1, 33, 65]                   [1, 33, 65]
T5, 8 buckets      [1, 33, 65]                   [1, 33, 65]"
import torch
from eole.config.models import TransformerDecoderConfig
from eole.decoders.transformer import TransformerDecoder

cases = {
    "rotary": dict(position_encoding_type="Rotary"),
    "window of 5": dict(position_encoding_type=None, sliding_window=5),
    "ALiBi": dict(position_encoding_type="Alibi"),
    "Shaw, up to 8": dict(position_encoding_type="Relative", n_positions=8),
    "T5, 8 buckets": dict(position_encoding_type="Relative", n_positions=32, relative_positions_buckets=8),
}
sentence = torch.randn(1, 65, 16, generator=torch.Generator().manual_seed(0))
padding = torch.zeros(1, 1, 65, dtype=torch.bool)


def step_by_step(decoder):  # As eole/predict/generator.py and translator.py do.
    decoder._init_cache(sentence[:, :1], padding[..., :1])
    steps = []
    for i in range(65):
        steps.append(decoder(sentence[:, i : i + 1], tgt_pad_mask=padding[..., :1], step=i)[0])
        decoder._extend_cache()
    decoder._disable_cache()
    return torch.cat(steps, 1)


print(f"{'positions':18} {'right words in a new process':29} after a whole sentence")
for name, options in cases.items():
    torch.manual_seed(0)
    options = TransformerDecoderConfig(hidden_size=16, heads=2, layers=1, transformer_ff=16, **options)
    new, used = (TransformerDecoder(options).eval() for _ in range(2))
    for parameter in new.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    used.load_state_dict(new.state_dict())
    with torch.no_grad():
        whole = used(sentence, tgt_pad_mask=padding)[0]
        right = [(step_by_step(each) - whole).abs().amax(-1)[0] < 1e-3 for each in (new, used)]
    texts = ["all" if each.all() else str([i + 1 for i in each.nonzero().flatten().tolist()]) for each in right]
    print(f"{name:18} {texts[0]:29} {texts[1]}")
PYTHON
