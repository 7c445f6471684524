#!/usr/bin/env bash
# OpusCleaner's filter of languages, with its default options, on pairs whose second side is in another language.
#
# Guess: a side that is surely in another language drops the pair. ALLOW_SIMILAR keeps neighbours (Catalan for Spanish),
#        ALLOW_UNKNOWN what the detector is not sure of. Both are on by default.
# So:    neighbours stand in a table of 15 languages. English, German, French and Russian are not in it. To look them up
#        raises a KeyError, and ALLOW_UNKNOWN passes each error. So for a language outside of the table the filter keeps
#        every text, in whatever language. With ALLOW_SIMILAR off it works.
# In:    opuscleaner 0.7.1, opuscleaner/filters/langid.py, detect_language_parallel (SIMILAR[lang]) and langid.json;
#        pycld2 0.42
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install opuscleaner==0.7.1 pycld2==0.42

python - <<'PYTHON' 2>/dev/null | seen "filter for                     en, de     en, de      es, ca
ALLOW_SIMILAR, ALLOW_UNKNOWN   on, on     off, on     on, on     by CLD2 itself
target in German               kept       kept        dropped    de, sure
target in Catalan              kept       dropped     kept       ca, sure
target in Spanish              kept       dropped     kept       es, sure
target in French               kept       dropped     dropped    fr, sure
target in Russian              kept       dropped     dropped    ru, sure
target in Greek                kept       dropped     dropped    el, sure"
import json
import subprocess

import pycld2

sources = {
    "en": "The minister opened a new bridge near the old town yesterday.",
    "es": "El ministro inauguró ayer un puente nuevo cerca del casco antiguo de la ciudad.",
}
targets = {
    "German": "Der Minister hat gestern eine neue Brücke nahe der Altstadt eröffnet.",
    "Catalan": "El ministre va inaugurar ahir un pont nou a prop del nucli antic de la ciutat.",
    "Spanish": sources["es"],
    "French": "Le ministre a inauguré hier un nouveau pont près de la vieille ville.",
    "Russian": "Министр вчера открыл новый мост возле старого города.",
    "Greek": "Ο υπουργός εγκαινίασε χθες μια νέα γέφυρα κοντά στην παλιά πόλη.",
}


def kept(source, target, **options):
    """The targets that a pipeline of this one filter keeps."""
    parameters = {"SRC_LANG": source, "TRG_LANG": target, **options}
    step = {"filter": "langid", "parameters": parameters, "language": None}
    with open("pipeline.json", "w") as file:
        json.dump({"version": 1, "files": [], "filters": [step]}, file)
    text = "".join(f"{sources[source]}\t{each}\n" for each in targets.values())
    command = ["opuscleaner-clean", "--input", "-", "pipeline.json", source, target]
    output = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return [line.split("\t")[1] for line in output.splitlines()]


columns = [kept("en", "de"), kept("en", "de", ALLOW_SIMILAR=False), kept("es", "ca")]
print("filter for                     en, de     en, de      es, ca")
print("ALLOW_SIMILAR, ALLOW_UNKNOWN   on, on     off, on     on, on     by CLD2 itself")
for language, target in targets.items():
    cells = ["kept" if target in column else "dropped" for column in columns]
    reliable, _, found = pycld2.detect(target)
    sure = f"{found[0][1]}, {'sure' if reliable else 'not sure'}"
    print("target in {:20} {:10} {:11} {:10} {}".format(language, *cells, sure))
PYTHON
