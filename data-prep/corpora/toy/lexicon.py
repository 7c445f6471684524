"""Words of the toy corpus: nouns, verbs, adjectives and times of the tables words/*.tsv, each in both languages.

A noun belongs to classes, and a verb names the classes that its object may have: this is what makes an ambiguous German
word ("Bank", "Schloss", "Hahn") unambiguous in its sentence. An adjective may have two rows: "schwer" is heavy of a
thing and difficult of a text.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

TABLES = Path(__file__).with_name("words")
MID_ADVERBS = [("oft", "often"), ("immer", "always"), ("nie", "never"), ("selten", "rarely"), ("bald", "soon")]
MODALS = [  # German infinitive, ich/er form; English ("want" takes an infinitive with "to")
    ("können", "kann", "can"),
    ("müssen", "muss", "must"),
    ("sollen", "soll", "should"),
    ("dürfen", "darf", "may"),
    ("wollen", "will", "want"),
]
MEN = ["Peter", "Paul", "Martin", "Jan", "David", "Stefan"]
WOMEN = ["Anna", "Maria", "Julia", "Laura", "Eva", "Sophie"]
CITIES = [("Berlin", "Berlin"), ("Wien", "Vienna"), ("München", "Munich"), ("Köln", "Cologne"), ("Hamburg", "Hamburg")]


@dataclass(frozen=True)
class Noun:
    gender: str  # m, f or n
    singular: str
    plural: str  # empty for mass nouns
    weak: str  # "weak", or empty; n-declension: every singular form but the nominative equals the plural
    english: str
    english_plural: str
    classes: frozenset[str]


@dataclass(frozen=True)
class Verb:
    """Without the particle are all German forms but the participle.

    frame: i without object, m to a place, t with an accusative, d a dative and p a prepositional object, x with a
    person and a thing, c with "that", z with an infinitive, w of the weather, s the copula.
    """

    frame: str
    particle: str  # separable prefix, or empty
    infinitive: str
    present: str  # third person singular
    past: str
    participle: str
    auxiliary: str  # "haben" or "sein"
    english: str
    english_third: str
    english_ing: str
    english_past: str
    english_participle: str
    english_particle: str  # "up", or empty
    english_preposition: str  # "for", or empty
    object_case: str  # acc, dat, "auf+acc", or empty
    classes: frozenset[str]  # of its object or place


@dataclass(frozen=True)
class Adjective:
    german: str
    stem: str  # of the attributive form, without ending
    english: str
    classes: frozenset[str]  # of its noun


@dataclass(frozen=True)
class TimeAdverb:
    german: str
    english: str  # word/TAG …
    tenses: frozenset[str]  # that it goes with


Entry = TypeVar("Entry", Noun, Verb, Adjective, TimeAdverb)


def _read(name: str, kind: type[Entry]) -> list[Entry]:
    """Return the rows of a table, whose columns are the fields of `kind`; the last one is a set."""
    with (TABLES / f"{name}.tsv").open(encoding="utf-8", newline="") as table:
        rows: list[dict[str, Any]] = list(csv.DictReader(table, delimiter="\t"))
    for row in rows:
        *_, last = row
        row[last] = frozenset(row[last].split())
    return [kind(**row) for row in rows]


ALL_NOUNS, ALL_VERBS = _read("nouns", Noun), _read("verbs", Verb)
ALL_ADJECTIVES, ALL_TIMES = _read("adjectives", Adjective), _read("times", TimeAdverb)
