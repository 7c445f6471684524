#!/usr/bin/env bash
# Attention in chunks by fairseq2, as in its Llama 4: which words each word sees.
#
# Guess: a word sees the words of its own chunk up to itself.
# So:    every word sees all words, later ones and other chunks too. The mask is added to the logits: it should be 0 and
#        -inf, and is 1 and 0. Llama 4 of fairseq2 so reads in training the words that it should predict.
#        CausalAttentionBias is right, with a window and without.
# In:    fairseq2 0.8.1, fairseq2/models/transformer/attention_bias.py, ChunkedAttentionBias.create_bias_tensor;
#        models/llama4/factory.py, Llama4Factory.create_self_attention
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==4.57.6 clusterscope==0.0.32 importlib_metadata==7.2.1
install importlib_resources==6.5.2 mypy-extensions==1.1.0 psutil==7.2.2 rich==14.3.4 ruamel-yaml==0.18.16 tiktoken==0.14.0
install --no-deps fairseq2==0.8.1
# fairseq2n is compiled, reads data, and needs torch 2.9.1 and libsndfile. Attention is Python alone, and this switch of
# fairseq2 leaves the compiled part out. With fairseq2n 0.8.1 the output is the same.
echo "DOC_MODE = True" > "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/fairseq2n.py"

python - <<'PYTHON' 2>/dev/null | seen "word               1      2      3      4      5      6
causal             1      12     123    1234   12345  123456
causal, window 3   1      12     123    234    345    456
chunks of 3        123456 123456 123456 123456 123456 123456
another word 6 changes the logits at     6, global attention
another word 6 changes the logits at     123456, chunks of 3"
import torch
from fairseq2.models.llama4 import Llama4Config
from fairseq2.models.llama4.factory import create_llama4_model
from fairseq2.models.transformer import AttentionBiasCache, CausalAttentionBias, ChunkedAttentionBias, TorchSDPA
from fairseq2.nn import BatchLayout

LENGTH = 6


def numbers(words):
    return "".join(str(each + 1) for each in words.nonzero().flatten().tolist())


torch.manual_seed(1)
print("word              ", " ".join(f"{word:<6}" for word in range(1, LENGTH + 1)).rstrip())
for name, bias in (
    ("causal", CausalAttentionBias()),
    ("causal, window 3", CausalAttentionBias(attn_window_len=3)),
    ("chunks of 3", ChunkedAttentionBias(attn_chunk_size=3)),
):
    query, key = torch.randn(2, 1, LENGTH, 1, 8)
    layout, values = BatchLayout.of(query), torch.eye(LENGTH)[None, :, None]  # So the output is the weights.
    weights = TorchSDPA(bias)(query, layout, key, layout, values, AttentionBiasCache())[0][0, :, 0]
    print(f"{name:18}", " ".join(f"{numbers(row > 0):6}" for row in weights).rstrip())

words = torch.arange(1, LENGTH + 1)[None]
other = words.clone()
other[0, -1] = 9
for name, chunk in (("global attention", 0), ("chunks of 3", 3)):
    config = Llama4Config(model_dim=16, vocab_size=20, max_seq_len=16, num_layers=1, num_attn_heads=2,
                          num_key_value_heads=2, ffn_inner_dim=16, attention_chunk_size=chunk)
    config.experts.interleave_moe_layer_step = 2  # No experts in a model of one layer.
    model = create_llama4_model(config).eval()
    layout = BatchLayout.of(words)
    changed = (model(words, layout) - model(other, layout)).abs().amax(-1)[0] > 1e-5
    print(f"another word 6 changes the logits at     {numbers(changed)}, {name}")
PYTHON
