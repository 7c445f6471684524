#!/usr/bin/env bash
# ESPnet's decoders with lightweight and dynamic convolutions (Wu et al. 2019): which words the last logits depend on.
#
# Guess: decoding with a cache reads the words that training reads: here the last three.
# So:    it reads the last one only. The decoder layer hands its self-attention the last word as
#        query, and all words as key; the convolutions ignore the key. So beam search scores words by another model than
#        the trained one. The decoder with attention is right, and the convolutions are where each step gets no state.
# In:    espnet 202511, espnet2/asr/decoder/transformer_decoder.py, BaseTransformerDecoder.score and batch_score;
#        espnet/nets/pytorch_backend/transformer: decoder_layer.py, DecoderLayer.forward; lightconv.py, dynamic_conv.py
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 packaging==26.4 typeguard==4.6.1
install --no-deps espnet==202511

python - <<'PYTHON' 2>/dev/null | seen "the last of 8 words reads    training  step by step  with a cache
attention                    12345678  12345678      12345678
lightweight convolution      678       678           8
dynamic convolution          678       678           8
lightweight convolution, 2D  678       678           8
dynamic convolution, 2D      678       678           8"
import contextlib
import functools
import io

import torch

with contextlib.redirect_stdout(io.StringIO()):  # It says that there is no Flash Attention.
    from espnet2.asr.decoder import transformer_decoder

memory, words = torch.ones(1, 2, 16), torch.arange(1, 9)[None]


def training(decoder, words):
    return decoder(memory, torch.tensor([2]), words, torch.tensor([8]))[0][0, -1].log_softmax(-1)


def step_by_step(decoder, words, cache=False):
    states = [None]
    for length in range(1, 9):
        logits, states = decoder.batch_score(words[:, :length], states if cache else [None], memory)
    return logits[0]


print("the last of 8 words reads    training  step by step  with a cache")
for name, kind in (
    ("attention", "Transformer"),
    ("lightweight convolution", "LightweightConvolutionTransformer"),
    ("dynamic convolution", "DynamicConvolutionTransformer"),
    ("lightweight convolution, 2D", "LightweightConvolution2DTransformer"),
    ("dynamic convolution, 2D", "DynamicConvolution2DTransformer"),
):
    torch.manual_seed(1)
    options = {"conv_kernel_length": (5,)} if "Convolution" in kind else {}
    decoder = getattr(transformer_decoder, f"{kind}Decoder")(20, 16, num_blocks=1, linear_units=16, **options).eval()
    columns = []
    for how in (training, step_by_step, functools.partial(step_by_step, cache=True)):
        others = [torch.where(words == word, 19, words) for word in range(1, 9)]
        with torch.no_grad():
            changes = [(how(decoder, other) - how(decoder, words)).abs().max() for other in others]
        columns.append("".join(str(word + 1) for word, change in enumerate(changes) if change > 1e-5))
    print(f"{name:27}  {columns[0]:8}  {columns[1]:12}  {columns[2]}")
PYTHON
