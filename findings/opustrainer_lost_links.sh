#!/usr/bin/env bash
# Word alignments that OpusTrainer carries over to other tokens.
#
# Guess: a link between two words becomes links between the new tokens that hold them.
# So:    where a new token holds several old ones, only the first of them keeps its links, except in the last new token
#        of the text: the search for the next old token starts behind the new token. Between spaces, French nouns with
#        an elided article lose theirs. With SentencePiece it hits pieces of several words, as Chinese has them. A model
#        with guided alignment is trained without these links.
# In:    opustrainer 0.5, opustrainer/modifiers/retokenize.py, Retokenizer.retokenize (prev_j), which the modifiers
#        Retokenize and Tags use; sentencepiece 0.1.99, sacremoses 0.2.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install opustrainer==0.5 sentencepiece==0.1.99 sacremoses==0.2.0

python - <<'PYTHON' 2>/dev/null | seen "Retokenize, French and English, from Moses' tokens to spaces
  links by overlap 18, by OpusTrainer 12
  lost: L'homme = man, n'aime = like, C'est = is, l'ami = friend, qu'elle = she, J'ai = have
Tags, Chinese and English, from words to pieces of SentencePiece
  links by overlap 27, by OpusTrainer 21
  lost: 这座城市 = city, 在河边读书 = read, 在河边读书 = river"
import io
from itertools import pairwise
from pathlib import Path

from opustrainer.modifiers.placeholders import PlaceholderTagModifier
from opustrainer.modifiers.retokenize import RetokenizeModifier
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

french = [
    "L' homme n' aime pas l' eau .\tThe man does not like the water .\t0-0 1-1 2-2 3-4 4-3 5-5 6-6 7-7",
    "C' est l' ami qu' elle attend .\tThis is the friend she expects .\t0-0 1-1 2-2 3-3 5-4 6-5 7-6",
    "J' ai vu l' église .\tI have seen the church .\t0-0 1-1 2-2 3-3 4-4 5-5",
]
chinese = [
    "我 喜欢 这 座 城市 。\tI like this city .\t0-0 1-1 2-2 3-2 4-3 5-4",
    "他 住 在 这 座 城市 。\tHe lives in this city .\t0-0 1-1 2-2 3-3 4-3 5-4 6-5",
    "我 在 河 边 读书 。\tI read by the river .\t0-0 1-2 2-4 3-2 4-1 5-5",
    "她 喜欢 在 河 边 读书 。\tShe likes to read by the river .\t0-0 1-1 2-4 3-6 4-4 5-3 6-7",
]


def places(tokens):
    """The characters that each token holds, counted without spaces."""
    ends = [0]
    for token in tokens:
        ends.append(ends[-1] + len(token))
    return [set(range(*pair)) for pair in pairwise(ends)]


def by_overlap(links, old, new):
    """The links between all new tokens that hold characters of linked old tokens."""
    found = set()
    for link in links.split():
        sides = []
        for index, before, after in zip(link.split("-"), old, new):
            held = places(before.split())[int(index)]
            sides.append([j for j, other in enumerate(places(after)) if held & other])
        found |= {(i, j) for i in sides[0] for j in sides[1]}
    return found


def report(name, modifier, tokenize, lines):
    total, kept, lost = 0, 0, {}
    for line in lines:
        *old, links = line.split("\t")
        *texts, output = next(iter(modifier([line]))).split("\t")
        new = [tokenize(text) for text in texts]
        found = {tuple(map(int, link.split("-"))) for link in output.split()}
        expected = by_overlap(links, old, new)
        total, kept = total + len(expected), kept + len(found & expected)
        for i, j in sorted(expected - found):
            lost[f"{new[0][i]} = {new[1][j]}"] = None
    print(f"{name}\n  links by overlap {total}, by OpusTrainer {kept}\n  lost: {', '.join(lost)}")


texts = [text.replace(" .", ".") for line in chinese for text in line.split("\t")[:2]]
texts[::2] = ["".join(text.split()) for text in texts[::2]]
model = io.BytesIO()
options = {"vocab_size": 75, "model_type": "bpe", "num_threads": 1, "minloglevel": 2}
SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=model, **options)
Path("pieces.model").write_bytes(model.getvalue())
pieces = SentencePieceProcessor(model_proto=model.getvalue())


def tokenize(text):
    return [piece.replace("▁", "") for piece in pieces.encode(text, out_type=str)]


spaces = RetokenizeModifier(src={"detokenize": "moses:fr"}, trg={"detokenize": "moses:en"})
tags = PlaceholderTagModifier(0, "zh", "en", "pieces.model", "pieces.model")
report("Retokenize, French and English, from Moses' tokens to spaces", spaces, str.split, french)
report("Tags, Chinese and English, from words to pieces of SentencePiece", tags, tokenize, chinese)
PYTHON
