"""Write a small German-English corpus of generated sentences: OUT/{train,valid,test}.{de,en}, one sentence a line."""

import argparse
import random
from pathlib import Path

NUMBERS = {"zwei": "two", "drei": "three", "vier": "four", "fünf": "five", "sechs": "six", "sieben": "seven"}
THINGS = {
    "Äpfel": "apples",
    "Birnen": "pears",
    "Bücher": "books",
    "Karten": "cards",
    "Hüte": "hats",
    "Uhren": "watches",
}
PEOPLE = {"Anna": "Anna", "mein Bruder": "my brother", "die Lehrerin": "the teacher", "unser Nachbar": "our neighbour"}
TIMES = {"heute": "today", "gestern": "yesterday", "am Montag": "on Monday", "im Sommer": "in summer"}


def sentence(rng: random.Random) -> tuple[str, str]:
    """Return a sentence in German, whose participle stands at the end, and in English."""
    number, thing, person, time = (rng.choice(list(words.items())) for words in (NUMBERS, THINGS, PEOPLE, TIMES))
    german = f"{time[0]} hat {person[0]} {number[0]} {thing[0]} gekauft."
    english = f"{person[1]} bought {number[1]} {thing[1]} {time[1]}."
    return german[0].upper() + german[1:], english[0].upper() + english[1:]


def main() -> None:
    """Write the three splits, without a pair in two of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", metavar="OUT", type=Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    pairs = sorted({sentence(rng) for _ in range(5000)})
    rng.shuffle(pairs)
    for split, part in (("train", pairs[40:]), ("valid", pairs[20:40]), ("test", pairs[:20])):
        for language, side in zip(("de", "en"), zip(*part, strict=True), strict=True):
            (out / f"{split}.{language}").write_text("\n".join(side) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
