"""Meanings of the toy corpus: the content of a sentence, independent of its language.

sample.py draws meanings; german.py and english.py put the same meaning into words. The two realisers share
nothing but these classes, so that a sentence pair is synchronous by construction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from corpora.toy.lexicon import Adjective, Noun, TimeAdverb, Verb


@dataclass
class NounPhrase:
    """A noun with its modifiers, a proper name, or a pronoun.

    determiner: def, indef, no ("kein", English "a" under "not"), this, every, poss, genitive (a name's), bare, two,
    three, mass ("Wasser"), or instrument (German bare, English "the"). Pronouns and names have no noun.
    """

    noun: Noun | None = None
    plural: bool = False
    determiner: str = "def"
    adjective: Adjective | None = None
    owner: NounPhrase | None = None
    modifier: Place | None = None
    relative: Clause | None = None
    name: tuple[str, str] | None = None  # (German, English)
    gender: str = "m"
    first_person: bool = False
    human: bool = True

    def __post_init__(self) -> None:
        if self.noun is not None:
            self.gender = self.noun.gender
            self.human = "person" in self.noun.classes

    @property
    def pronoun(self) -> bool:
        return self.noun is None and self.name is None

    @property
    def agreement(self) -> str:
        """Return the class of agreement in both languages: 1s, 1p, 3s or 3p."""
        return ("1" if self.first_person else "3") + ("p" if self.plural else "s")


@dataclass
class Place:
    """A prepositional phrase, or a fixed phrase ("zu Hause") where `phrase` is None."""

    german: str
    english: str
    case: str = "dat"
    phrase: NounPhrase | None = None


@dataclass
class Clause:
    """A predicate with its arguments.

    tense: present, past, perfect, pluperfect, future, modal, progressive, perfect-past (German perfect that English
    says in the simple past, next to an adverb such as "yesterday"), or infinitive (no subject; "zu" and "to").
    gap: "subject" or "object" if that argument is a relative pronoun.
    complement: (conjunction, clause) after the verb: "dass", "zu" or "um".
    """

    subject: NounPhrase | None
    verb: Verb
    tense: str = "present"
    objects: list[NounPhrase] = field(default_factory=list)  # ditransitive: person first
    places: list[Place] = field(default_factory=list)
    instrument: Place | None = None
    time: TimeAdverb | None = None
    mid_adverb: tuple[str, str] | None = None
    modal: tuple[str, str, str] | None = None
    negated: bool = False
    passive: bool = False
    predicate: Adjective | None = None
    degree: tuple[str, str] | None = None
    gap: str = ""
    complement: tuple[str, Clause] | None = None
    front: str = ""  # "time" or "place": the phrase before the finite verb


@dataclass
class Sentence:
    """A main clause, optionally joined to another clause.

    kind: statement, question (yes/no) or the German question word of a wh-question.
    joined: (relation, clause), a subordinate clause ("weil", "wenn", …) or a coordinated one ("und", "aber").
    """

    main: Clause
    kind: str = "statement"
    joined: tuple[str, Clause] | None = None
    joined_first: bool = False
