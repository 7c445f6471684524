#!/usr/bin/env bash
# ProphetNet of transformers, a model for summarisation: the logits of a target that is given, as in training.
#
# Guess: the logits at a position depend on the words up to it. Decoding with a cache computes the same.
# So:    they change with later words, and with the length of the target: so does the loss that trains the model.
#        Decoding with a cache, as generate() does, computes other logits than training did. No warning is given.
#        The stream that predicts reshapes its scores of relative positions in a wrong order of dimensions.
#        A word's attention thus gets the scores of other words and heads. With the right order all is as guessed.
# In:    transformers 5.24.0, models/prophetnet/modeling_prophetnet.py, ProphetNetNgramSelfAttention,
#        get_predict_relative_pos_embeddings: permute(0, 2, 1, 4, 3), where (0, 1, 4, 2, 3) were right
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0

python - <<'PYTHON' 2>/dev/null | seen "logits alike                     other later word  target cut off  with a cache
2 streams, 4 heads (default: 16) False             False           False
1 stream, 1 head                 True              True            True
2 streams, 4 heads, mended       True              True            True"
from inspect import getsource
from textwrap import dedent

import torch
from transformers import ProphetNetConfig, ProphetNetForConditionalGeneration
from transformers.models.prophetnet import modeling_prophetnet as code

source, target = torch.randint(5, 30, (2, 1, 20), generator=torch.Generator().manual_seed(1))
other = target.clone()
other[0, 6] = 31 - target[0, 6]


def show(name, streams, heads):
    torch.manual_seed(1)
    sizes = dict(num_encoder_layers=2, num_decoder_layers=2, encoder_ffn_dim=32, decoder_ffn_dim=32, hidden_size=16)
    sizes |= dict(num_encoder_attention_heads=heads, num_decoder_attention_heads=heads)
    config = ProphetNetConfig(vocab_size=40, ngram=streams, init_std=.5, max_position_embeddings=64, **sizes)
    model = ProphetNetForConditionalGeneration(config).eval()
    with torch.no_grad():
        logits, changed, cut = (
            model(source, decoder_input_ids=words).logits[0] for words in (target, other, target[:, :6]))
        cache, steps = None, []
        for word in target[0]:
            output = model(source, decoder_input_ids=word[None, None], cache=cache, use_cache=True)
            cache = output.cache
            steps.append(output.logits[0, 0])
    pairs = (logits[:6], changed[:6]), (logits[:6], cut), (logits, torch.stack(steps))
    alike = [str(torch.allclose(a, b, atol=1e-3)) for a, b in pairs]
    print(f"{name:32} {alike[0]:17} {alike[1]:15} {alike[2]}")


print("logits alike                     other later word  target cut off  with a cache")
show("2 streams, 4 heads (default: 16)", 2, 4)
show("1 stream, 1 head", 1, 1)
# The method again, with the dimensions in the order in which its result is read: batch, stream, head, word, bucket.
method = code.ProphetNetNgramSelfAttention.get_predict_relative_pos_embeddings
mended = {}
exec(dedent(getsource(method)).replace("permute(0, 2, 1, 4, 3)", "permute(0, 1, 4, 2, 3)"), vars(code), mended)
code.ProphetNetNgramSelfAttention.get_predict_relative_pos_embeddings = mended[method.__name__]
show("2 streams, 4 heads, mended", 2, 4)
PYTHON
