#!/usr/bin/env bash
# BPE-dropout with the probability 0.1 (Provilkov et al. 2020): how often a word stays whole, by the library.
#
# Guess: equal merges and an equal probability split words equally often.
# So:    SentencePiece splits far more. It keeps 48 % of a word with seven merges whole, the paper's algorithm 1 79 %.
#        In the paper a merge that was dropped can come back at the next step, while any merge is possible.
#        SentencePiece drops it for good: a word of n merges stays whole with (1 - p)^n. Its code calls both equivalent.
#        With a single merge they are. Here alpha=0.034 is like the paper's 0.1. It is fairseq's --sentencepiece-alpha.
# In:    sentencepiece 0.2.3, src/bpe_model.cc, Model::SampleEncode; subword-nmt 0.3.8, tokenizers 0.23.3
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install sentencepiece==0.2.3 protobuf==7.36.2 subword-nmt==0.3.8 tokenizers==0.23.3

python - <<'PYTHON' 2>/dev/null | seen "words that stay whole        1 merge  7 merges
the paper's algorithm            0.9       0.8
subword-nmt                      0.9       0.8
tokenizers                       0.9       0.8
sentencepiece                    0.9       0.5
sentencepiece, alpha=0.034       1.0       0.8"
import io
import random

from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
from subword_nmt.apply_bpe import BPE
from tokenizers import Tokenizer, models


def paper(word, merges):
    pieces = list(word)
    while True:
        pairs = enumerate(zip(pieces, pieces[1:]))
        kept = [(merges.index(pair), i) for i, pair in pairs if pair in merges and random.random() >= 0.1]
        if not kept:
            return pieces
        rank, i = min(kept)
        pieces[i : i + 2] = ["".join(merges[rank])]


table = {}
for word, text in ("up", "u p"), ("backport", "b a,c k,p o,r t,ba ck,po rt,back port"):
    merges = [tuple(pair.split()) for pair in text.split(",")]
    codes = "".join(f"{first} {second}{'</w>' * word.endswith(second)}\n" for first, second in merges)
    pieces = {piece: number for number, piece in enumerate([*map("".join, merges), *word])}
    learned = [{"piece": piece, "score": -number} for piece, number in pieces.items()]
    model = sentencepiece_model_pb2.ModelProto(pieces=[{"piece": "<unk>", "type": 2}, *learned])
    model.trainer_spec.model_type, model.normalizer_spec.add_dummy_prefix = 2, False  # BPE, no space in front
    google = SentencePieceProcessor(model_proto=model.SerializeToString())
    sennrich = BPE(io.StringIO("#version: 0.2\n" + codes))
    face = Tokenizer(models.BPE(pieces, merges, dropout=0.1))
    for name, cut in {
        "the paper's algorithm": lambda: paper(word, merges),
        "subword-nmt": lambda: sennrich.process_line(word, dropout=0.1).split(),
        "tokenizers": lambda: face.encode(word).tokens,
        "sentencepiece": lambda: google.encode(word, enable_sampling=True, alpha=0.1),
        "sentencepiece, alpha=0.034": lambda: google.encode(word, enable_sampling=True, alpha=0.034),
    }.items():
        table.setdefault(name, []).append(sum(len(cut()) == 1 for _ in range(20000)) / 20000)
print("words that stay whole        1 merge  7 merges")
for name, shares in table.items():
    print(f"{name:32} {shares[0]:.1f} {shares[1]:9.1f}")
PYTHON
