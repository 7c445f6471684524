#!/usr/bin/env bash
# Hindi, Bengali and Tamil, tokenized by fast-mosestokenizer, which OpusFilter uses.
#
# Guess: as with Moses, the tokens are the text with more spaces. The package brings abbreviations for twelve languages
#        of India. Its documentation says only that outputs differ from those of Moses.
# So:    each vowel sign that Unicode classes as a spacing mark (Mc) becomes a space. Words lose vowels and are torn.
#        "Boy" and "girl" become one word, and so do "of", "to" and "that".
# In:    opus-fast-mosestokenizer 0.0.8.11, src/Tokenizer.cpp, quik_tokenize: G_UNICODE_SPACING_MARK sets curr_uch = 0;
#        OpusFilter 3.3.1, whose tokenizer "moses" it is (opusfilter/tokenization.py); sacremoses 0.2.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install opus-fast-mosestokenizer==0.0.8.11 sacremoses==0.2.0

python - <<'PYTHON' 2>/dev/null | seen "hi  sacremoses           मेरा लड़का और मेरी लड़की पढ़ते हैं ।
    fast-mosestokenizer  मेर लड़क और मेर लड़क पढ़ते हैं ।   (spacing marks: 0 of 4)
hi  sacremoses           का की को कि
    fast-mosestokenizer  क क क क   (spacing marks: 0 of 4)
bn  sacremoses           আমি বাংলা ভাষা পড়ি ।
    fast-mosestokenizer  আম ব ল ভ ষ পড় ।   (spacing marks: 0 of 7)
ta  sacremoses           நான் தமிழ் மொழி படிக்கிறேன் .
    fast-mosestokenizer  ந ன் தம ழ் ம ழ பட க்க ற ன் .   (spacing marks: 0 of 7)"
from unicodedata import category

from mosestokenizer import MosesTokenizer
from sacremoses import MosesTokenizer as Sacremoses

texts = {
    "hi": ("मेरा लड़का और मेरी लड़की पढ़ते हैं।", "का की को कि"),
    "bn": ("আমি বাংলা ভাষা পড়ি।",),
    "ta": ("நான் தமிழ் மொழி படிக்கிறேன்.",),
}
for language, lines in texts.items():
    fast, slow = MosesTokenizer(language), Sacremoses(language)
    for text in lines:
        tokens = fast.tokenize(text)
        marks = [sum(category(letter) == "Mc" for letter in line) for line in (text, "".join(tokens))]
        print(f"{language}  sacremoses           {' '.join(slow.tokenize(text))}")
        print(f"    fast-mosestokenizer  {' '.join(tokens)}   (spacing marks: {marks[1]} of {marks[0]})")
PYTHON
