#!/usr/bin/env bash
# Pairs whose currency OpusCleaner repairs.
#
# Guess: one pair a line, as before. With FIX the filter writes the source's currency for the target's.
# So:    a repaired pair has no end of line. The next pair follows in the same line: its source is glued to the repaired
#        target, its own target becomes a third column. Later filters take such a line for one pair or drop it. So the
#        next pair, which was right, is lost too.
# In:    opuscleaner 0.7.1, opuscleaner/filters/currency_mismatch.py, filter_currency_mismatch (the last write)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install opuscleaner==0.7.1

python - <<'PYTHON' 2>/dev/null | seen "input
  The ticket costs 5 $. | Die Karte kostet 5 £.
  Good morning. | Guten Morgen.
  He paid 20 $. | Er zahlte 20 €.
  She lost 30 $. | Sie verlor 30 €.
  See you later. | Bis später.
currency_mismatch without FIX
  Good morning. | Guten Morgen.
  See you later. | Bis später.
currency_mismatch with FIX
  The ticket costs 5 $. | Die Karte kostet 5 $.Good morning. | Guten Morgen.
  He paid 20 $. | Er zahlte 20 $.She lost 30 $. | Sie verlor 30 $.See you later. | Bis später.
the same, then src_trg_ratio
  no pair"
import json
import subprocess

pairs = [
    ("The ticket costs 5 $.", "Die Karte kostet 5 £."),
    ("Good morning.", "Guten Morgen."),
    ("He paid 20 $.", "Er zahlte 20 €."),
    ("She lost 30 $.", "Sie verlor 30 €."),
    ("See you later.", "Bis später."),
]


def report(name, text):
    print(name)
    for line in text.splitlines() or ["no pair"]:
        print("  " + line.replace("\t", " | "))


def clean(*filters):
    """The output of a pipeline of these filters."""
    steps = [{"filter": name, "parameters": parameters, "language": None} for name, parameters in filters]
    with open("pipeline.json", "w") as file:
        json.dump({"version": 1, "files": [], "filters": steps}, file)
    command = ["opuscleaner-clean", "--input", "-", "pipeline.json", "en", "de"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


text = "".join(f"{source}\t{target}\n" for source, target in pairs)
report("input", text)
report("currency_mismatch without FIX", clean(("currency_mismatch", {"FIX": False})))
report("currency_mismatch with FIX", clean(("currency_mismatch", {"FIX": True})))
report("the same, then src_trg_ratio", clean(("currency_mismatch", {"FIX": True}), ("src_trg_ratio", {"RATIO": 0.6})))
PYTHON
