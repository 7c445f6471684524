#!/usr/bin/env bash
# Hyphens of raw text, by fairseq-interactive --tokenizer moses.
#
# Guess: the tokens are those of fairseq's own preparation of IWSLT14, which calls Moses' tokenizer.perl -threads 8 -l de,
#        and those of sacremoses, which fairseq calls.
# So:    fairseq asks for what is -a of tokenizer.perl and no default of sacremoses: "x-ray" becomes "x @-@ ray". A model
#        of that preparation has never seen "@-@". --moses-no-dash-splits gives the tokens of the training.
# In:    fairseq-fixed 0.12.3.1, fairseq/data/encoders/moses_tokenizer.py, encode; with sacremoses 0.2.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq
install sacremoses==0.2.0

python - <<'PYTHON' 2>/dev/null | seen "sacremoses              a well-known x-ray
fairseq                 a well @-@ known x @-@ ray
moses_no_dash_splits    a well-known x-ray"
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from sacremoses import MosesTokenizer as Sacremoses

text = "a well-known x-ray"
languages = {"source_lang": "en", "target_lang": "de"}
print("sacremoses             ", Sacremoses("en").tokenize(text, return_str=True))
print("fairseq                ", MosesTokenizer(MosesTokenizerConfig(**languages)).encode(text))
whole = MosesTokenizerConfig(**languages, moses_no_dash_splits=True)
print("moses_no_dash_splits   ", MosesTokenizer(whole).encode(text))
PYTHON
