#!/usr/bin/env bash
# Sentences of a translation memory (TMX) with markup inside, read by mtdata.
#
# Guess: the text comes whole, with or without the markup.
# So:    a sentence ends at its first tag, and one that begins with a tag is dropped, with a warning of a "language
#        mismatch". TMX has tags inside sentences for bold words, links and placeholders. Both sides are cut, each at a
#        place of its own, and the pairs stay in the corpus.
# In:    mtdata 0.5.1, mtdata/tmx.py, parse_tmx (findtext gives the text before the first child);
#        translate-toolkit 3.20.4
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install mtdata==0.5.1 translate-toolkit==3.20.4

python - <<'PYTHON' 2>/dev/null | seen "mtdata              Press | Drücken Sie auf die Taste
mtdata              The end. | Das Ende.
Translate Toolkit   Press the red key to start. | Drücken Sie auf die Taste Rot zum Starten.
Translate Toolkit   Warning: hot. | Achtung: heiß.
Translate Toolkit   The end. | Das Ende."
from pathlib import Path

from mtdata.tmx import read_tmx
from translate.storage.tmx import tmxfile

pairs = [
    ("Press <hi>the red key</hi> to start.", "Drücken Sie auf die Taste <hi>Rot</hi> zum Starten."),
    ("<hi>Warning</hi>: hot.", "<hi>Achtung</hi>: heiß."),
    ("The end.", "Das Ende."),
]
units = "".join(
    f'<tu><tuv xml:lang="en"><seg>{en}</seg></tuv><tuv xml:lang="de"><seg>{de}</seg></tuv></tu>' for en, de in pairs
)
header = 'creationtool="none" creationtoolversion="1" segtype="sentence" o-tmf="none" adminlang="en" srclang="en"'
text = f'<tmx version="1.4"><header {header} datatype="plaintext"/><body>{units}</body></tmx>'
Path("memory.tmx").write_text(text, encoding="utf-8")

for en, de in read_tmx(Path("memory.tmx"), langs=("en", "de")):
    print(f"mtdata              {en} | {de}")
for unit in tmxfile(open("memory.tmx", "rb"), "en", "de").units:
    print(f"Translate Toolkit   {unit.source} | {unit.target}")
PYTHON
