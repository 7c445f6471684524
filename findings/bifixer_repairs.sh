#!/usr/bin/env bash
# Sentences of parallel corpora, repaired by Bifixer.
#
# Guess: mojibake, wrong alphabets, misspellings and odd spaces are mended, and correct text stays.
# So:    English names in Danish get "Te" for "The", as "the" stands among the misspellings, for "te" (tea). Most Greek
#        letters become Latin ones in every language but Greek: γ is Y, Δ is A, Σ is E. The joiner U+200D, which Sinhala
#        and Marathi have inside words, becomes a space, so "Sri" of Sri Lanka is two words.
#        --ignore_orthography, --ignore_characters and --ignore_normalization turn each off, with all else of its kind.
# In:    bifixer 0.8.12, bifixer/restorative_cleaning.py, getCharsReplacements and normalize (chars3Re2);
#        bifixer/replacements/replacements.da
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install bifixer==0.8.12 ftfy==6.3.1 nltk==3.10.4 regex==2026.11.19 Unidecode==1.4.0 xxhash==4.1.0

python - <<'PYTHON' 2>/dev/null | seen "en         The γ rays and the β rays lose the energy ΔE.
repaired   The Y rays and the B rays lose the energy AE.
da         Avisen The Times skrev om The Beatles.
repaired   Avisen Te Times skrev om Te Beatles.
mr         दर्<U+200D>या
repaired   दर् या
si         ශ්<U+200D>රී ලංකාව
repaired   ශ් රී ලංකාව"
import subprocess


def visible(text):
    return text.replace("\u200d", "<U+200D>")


for language, text in (
    ("en", "The γ rays and the β rays lose the energy ΔE."),
    ("da", "Avisen The Times skrev om The Beatles."),
    ("mr", "दर\u094d\u200dया"),
    ("si", "ශ\u0dca\u200dරී ලංකාව"),
):
    command = ["bifixer", "--scol", "1", "--tcol", "2", "--ignore_segmentation", "--ignore_duplicates", "-q", "-", "-"]
    line = f"A sentence.\t{text}\n"
    output = subprocess.run([*command, "en", language], input=line, capture_output=True, text=True).stdout
    repaired = output.split("\t")[1].strip()
    print(f"{language}         {visible(text)}\nrepaired   {visible(repaired)}")
PYTHON
