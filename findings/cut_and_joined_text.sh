#!/usr/bin/env bash
# Persian and Chinese text that SentencePiece and OpenNMT's Tokenizer cut into pieces and join again.
#
# Guess: the text comes back. SentencePiece's default is documented as Unicode's NFKC with rules for spaces, and NFKC
#        keeps U+200C. OpenNMT's Tokenizer calls itself reversible; only its own signs, as the joiner, are replaced.
# So:    SentencePiece writes a space for U+200C, the half-space that Persian has inside words, as of plurals and verbs.
#        OpenNMT's Tokenizer writes ":" for the full-width colon of Chinese, and ASCII for the full-width "%" and "#".
#        No model learns to write these characters, and its translations lose BLEU at each. An option keeps them.
# In:    sentencepiece 0.2.3, data/nmt_nfkc.tsv, which is built in; pyonmttok 1.38.1, src/Tokenizer.cc, substitutes;
#        sacrebleu 2.6.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install sentencepiece==0.2.3 pyonmttok==1.38.1 sacrebleu==2.6.0

python - <<'PYTHON' 2>/dev/null | seen "                               lines back     BLEU
Persian, SentencePiece               1 of 4     64.1
Persian, SentencePiece nfkc          4 of 4    100.0
Chinese, OpenNMT                     1 of 4     79.3
Chinese, OpenNMT no_substitution     4 of 4    100.0"
import io

from pyonmttok import Tokenizer
from sacrebleu.metrics import BLEU
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

persian = [
    "من این کتاب را خواندم و آن را به دوستم دادم.",
    "آن‌ها فردا صبح با قطار به خانه می‌روند.",
    "کتاب‌ها روی میز بزرگ اتاق هستند.",
    "او هر روز به دانشگاه می‌رود و درس می‌خواند.",
]
chinese = ["我们今天很高兴。", "会议时间：下午三点。", "地址：上海市南京路一百号。", "他说：“我明天去北京。”"]


def report(name, lines, back, **options):
    same = sum(a == b for a, b in zip(back, lines))
    print(f"{name:36} {same} of {len(lines)} {BLEU(**options).corpus_score(back, [lines]).score:8.1f}")


print("                               lines back     BLEU")
for options in ({}, {"normalization_rule_name": "nfkc"}):
    file = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(persian * 20), model_writer=file, vocab_size=100, hard_vocab_limit=False, minloglevel=3,
        character_coverage=1.0, **options,
    )  # fmt: skip
    model = SentencePieceProcessor(model_proto=file.getvalue())
    name = " ".join(["Persian, SentencePiece", *options.values()])
    report(name, persian, [model.decode(model.encode(line)) for line in persian])
for options in ({}, {"no_substitution": True}):
    model = Tokenizer("aggressive", joiner_annotate=True, **options)
    name = " ".join(["Chinese, OpenNMT", *options])
    report(name, chinese, [model.detokenize(model(line)) for line in chinese], tokenize="zh")
PYTHON
