#!/usr/bin/env bash
# Vietnamese and Yoruba in Unicode's form NFD, each accent a character of its own, cut into pieces by transformers.
#
# Guess: the pieces are those of SentencePiece. Its default rules join a letter and its accents, and transformers reads
#        these rules from the model file.
# So:    of a letter with two accents the second is lost: "thế giới" becomes "thê giơi", without a warning. Words
#        of these languages differ by such accents. Text in form NFC is read as by SentencePiece: convert it first.
# In:    tokenizers 0.23.3, normalizers.Precompiled, which replaces a whole letter by the shortest rule that fits;
#        transformers 5.24.0, models/t5/tokenization_t5.py, and those of XLM-R, mBART-50, NLLB and Pegasus
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install transformers==5.24.0 tokenizers==0.23.3 sentencepiece==0.2.3 protobuf==7.36.2

python - <<'PYTHON' 2>/dev/null | seen "form  pieces      SentencePiece           transformers
NFC   alike       một thế giới đẹp        một thế giới đẹp
NFD   not alike   một thế giới đẹp        mọt thê giơi đẹp
NFC   alike       ọ̀rọ̀ ẹ̀kọ́             ọ̀rọ̀ ẹ̀kọ́
NFD   not alike   ọ̀rọ̀ ẹ̀kọ́             ọrọ ẹkọ"
import os
import unicodedata

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import T5Tokenizer

texts = ["một thế giới đẹp", "ọ̀rọ̀ ẹ̀kọ́"]
lines = [unicodedata.normalize("NFC", text) for text in (*texts, "mọt thê giơi đẹp", "ọrọ ẹkọ")]
os.mkdir("model")
SentencePieceTrainer.train(
    sentence_iterator=iter(lines * 20), model_prefix="model/spiece", vocab_size=60, hard_vocab_limit=False,
    character_coverage=1.0, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=3,
)  # fmt: skip
reference = SentencePieceProcessor(model_file="model/spiece.model")
tokenizer = T5Tokenizer.from_pretrained("model", extra_ids=0)

print("form  pieces      SentencePiece           transformers")
for text in texts:
    for form in ("NFC", "NFD"):
        line = unicodedata.normalize(form, text)
        ids = tokenizer(line, add_special_tokens=False).input_ids
        expected = reference.encode(line)
        same = "alike" if ids == expected else "not alike"
        print(f"{form}   {same:11} {reference.decode(expected):23} {tokenizer.decode(ids)}")
PYTHON
