#!/usr/bin/env bash
# Two SentencePiece models of the same text, options and seed.
#
# Guess: the files are equal, so that a checksum says whether a vocabulary is the same.
# So:    a model holds the paths that it was trained with. The pieces and scores are equal, the files are not.
# In:    sentencepiece 0.2.1, sentencepiece_model.proto, TrainerSpec (input, model_prefix)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install sentencepiece==0.2.1

python - <<'PYTHON' 2>/dev/null | seen "equal pieces and scores: True
equal files: False
one file holds the name that it was trained by: True"
from pathlib import Path

import sentencepiece

Path("text").write_text("".join(f"a line of words number {i} and {i * i}\n" for i in range(500)))
for name in ("one", "two"):
    sentencepiece.SentencePieceTrainer.train(input="text", model_prefix=name, vocab_size=60, minloglevel=2)
vocabularies = [Path(f"{name}.vocab").read_text() for name in ("one", "two")]
models = [Path(f"{name}.model").read_bytes() for name in ("one", "two")]
print("equal pieces and scores:", vocabularies[0] == vocabularies[1])
print("equal files:", models[0] == models[1])
print("one file holds the name that it was trained by:", b"one" in models[0] and b"one" not in models[1])
PYTHON
