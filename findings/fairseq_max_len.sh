#!/usr/bin/env bash
# fairseq's --max-len-a: which length of the source it multiplies.
#
# Guess: a translation has at most a · n + b tokens, for the n tokens of its own source.
# So:    n is the width of the batch: a short sentence may grow as long as its longest neighbour allows. So translations,
#        and a score of them, depend on --max-tokens and on the order of sentences, where a model does not end by itself.
# In:    fairseq-fixed 0.12.3.1, fairseq/sequence_generator.py, SequenceGenerator._generate
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "alone: 5 tokens
beside a sentence of 20 tokens: 20 tokens"
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.sequence_generator import SequenceGenerator

words = Dictionary()
for word in "abcdefgh":
    words.add_symbol(word)
sizes = {f"{side}_{name}": 16 for side in ("encoder", "decoder") for name in ("embed_dim", "ffn_embed_dim")}
args = SimpleNamespace(**sizes, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2)
base_architecture(args)
args.max_source_positions = args.max_target_positions = 100
torch.manual_seed(0)
model = TransformerModel.build_model(args, SimpleNamespace(source_dictionary=words, target_dictionary=words)).eval()
model.decoder.output_projection.weight.data[words.eos()] = -1.0  # this model seldom ends by itself
search = SequenceGenerator([model], words, beam_size=1, max_len_a=1, max_len_b=0)


def translate(*sentences):
    rows = [[words.index(word) for word in sentence] + [words.eos()] for sentence in sentences]
    width = max(map(len, rows))
    tokens = torch.tensor([[words.pad()] * (width - len(row)) + row for row in rows])  # on the left, as fairseq's batches
    lengths = torch.tensor([len(row) for row in rows])
    return len(search.generate([model], {"net_input": {"src_tokens": tokens, "src_lengths": lengths}})[0][0]["tokens"]) - 1


print("alone:", translate("abcd"), "tokens")
print("beside a sentence of 20 tokens:", translate("abcd", "abcdefghabcdefghabc"), "tokens")
PYTHON
