"""Draws meanings for the toy corpus.

Whatever is ambiguous in one language is drawn only where its context settles it: a homonym ("Bank") only under a verb
or a preposition that takes one of its senses, "er" of a thing only with a predicate that no person can have, an object
relative of a woman or of several people not at all ("die Frau, die das Kind sieht" reads both ways).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TypeVar

from corpora.toy import lexicon
from corpora.toy.lexicon import ALL_ADJECTIVES, ALL_NOUNS, ALL_TIMES, ALL_VERBS, MEN, WOMEN, Adjective, Noun, Verb
from corpora.toy.meaning import Clause, NounPhrase, Place, Sentence

T = TypeVar("T")
_ANIMATE = frozenset({"person", "animal"})
_SHAPES = {
    "simple": 40, "subordinate": 18, "because": 8, "that": 9, "question": 8, "passive": 6, "copula": 5, "infinitive": 6,
    "coordinated": 6,
}  # fmt: skip
_FRAMES = {"t": 50, "i": 16, "m": 10, "d": 6, "p": 8, "x": 10}
_TENSES = {"present": 34, "past": 20, "perfect": 14, "future": 10, "modal": 14, "progressive": 8}
_LOCATIVE = {"area": ["in"], "surface": ["auf"], "building": ["in", "vor"], "shore": ["an"]}
_ENGLISH_PREPOSITION = {"in": "in", "auf": "on", "vor": "in front of", "an": "at"}


class Sampler:
    """Draws sentences with a random generator of its own; equal seeds give equal sentences."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.nouns: dict[str, list[Noun]] = defaultdict(list)
        for noun in ALL_NOUNS:
            for name in sorted(noun.classes):
                self.nouns[name].append(noun)
        self.verbs: dict[str, list[Verb]] = defaultdict(list)
        for verb in ALL_VERBS:
            self.verbs[verb.frame].append(verb)
        self.senses = Counter((noun.gender, noun.singular) for noun in ALL_NOUNS)
        self.copula = self.verbs["s"][0]

    def sentence(self) -> Sentence:
        """Draw one sentence."""
        shape = self.weighted(_SHAPES)
        return getattr(self, f"_{shape}")()

    # Small draws

    def choice(self, items: list[T]) -> T:
        return items[self.random.randrange(len(items))]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def weighted(self, weights: dict[str, int]) -> str:
        return self.random.choices(list(weights), list(weights.values()))[0]

    # Noun phrases

    def person(self, pronoun: float = 0.25, name: float = 0.2, modifiers: float = 1.0) -> NounPhrase:
        """Draw a subject: pronoun, name or noun."""
        draw = self.random.random()
        if draw < pronoun:
            gender = self.choice(["m", "f"])
            return NounPhrase(gender=gender, plural=self.chance(0.35), first_person=self.chance(0.35))
        if draw < pronoun + name:
            gender = self.choice(["m", "f"])
            given = self.choice(MEN if gender == "m" else WOMEN)
            return NounPhrase(name=(given, given), gender=gender)
        return self.noun(["person"], modifiers=modifiers)

    def noun(self, classes: list[str], owner: NounPhrase | None = None, modifiers: float = 0.6) -> NounPhrase:
        """Draw a noun of one of the classes; modifiers: factor of the chance of a phrase or a relative clause."""
        name = self.choice(classes)
        noun = self.choice(self.nouns[name])
        phrase = NounPhrase(noun=noun)
        if not noun.plural:
            phrase.determiner = self.choice(["def", "mass"]) if name == "drink" else "def"
        else:
            phrase.plural = self.chance(0.22)
            phrase.determiner = self._determiner(phrase, owner)
            if phrase.determiner == "poss":
                phrase.owner = owner
            elif phrase.determiner == "genitive":
                given = self.choice(MEN + WOMEN)
                phrase.owner = NounPhrase(name=(given, given))
        phrase.adjective = self._adjective(name, 0.3)
        if phrase.determiner in ("def", "indef") and self.chance(0.1 * modifiers):
            self._modify(phrase, name)
        elif phrase.determiner in ("def", "indef", "this") and self.chance(0.12 * modifiers):
            phrase.relative = self._relative(phrase, name)
        return phrase

    def _adjective(self, name: str, probability: float) -> Adjective | None:
        adjectives = [item for item in ALL_ADJECTIVES if name in item.classes]
        return self.choice(adjectives) if adjectives and self.chance(probability) else None

    def _determiner(self, phrase: NounPhrase, owner: NounPhrase | None) -> str:
        if phrase.plural:
            weights = {"def": 55, "bare": 15, "this": 10, "two": 10, "three": 6}
        else:
            weights = {"def": 50, "indef": 25, "this": 8, "every": 4, "genitive": 4}
        if owner is not None and owner.gender != "n":
            weights["poss"] = 16
        return self.weighted(weights)

    def _modify(self, phrase: NounPhrase, name: str) -> None:
        """Add a prepositional phrase: "the man with the hat", "the book on the table"."""
        if name == "person":
            inner = NounPhrase(noun=self.choice(self.nouns["clothes"]), determiner=self.choice(["def", "indef"]))
            phrase.modifier = Place("mit", "with", "dat", inner)
        elif name in ("ware", "text", "food", "gift") and phrase.noun and "surface" not in phrase.noun.classes:
            phrase.modifier = self._location(["surface"])

    def _relative(self, head: NounPhrase, name: str) -> Clause | None:
        tense = self.choice(["present", "present", "past", "perfect"])
        stand_in = NounPhrase(plural=head.plural, gender=head.gender)
        if name == "person" and self.chance(0.7):
            if self.chance(0.35):
                predicate = self._predicate("person")
                then = self.choice(["present", "past"])
                return Clause(stand_in, self.copula, then, predicate=predicate, gap="subject")
            verb = self.choice([verb for verb in self.verbs["t"] if "person" not in verb.classes])
            return Clause(stand_in, verb, tense, [self.noun(sorted(verb.classes), modifiers=0)], gap="subject")
        reversible = name == "person" and (head.plural or head.gender != "m")
        verbs = [verb for verb in self.verbs["t"] + self.verbs["p"] if name in verb.classes]
        if not verbs or reversible:
            return None
        return Clause(self.person(0.2, 0.15, modifiers=0), self.choice(verbs), tense, gap="object")

    def _predicate(self, name: str, only: frozenset[str] | None = None) -> Adjective:
        found = [item for item in ALL_ADJECTIVES if name in item.classes and (only is None or item.classes <= only)]
        return self.choice(found)

    # Places and times

    def _location(self, classes: list[str]) -> Place:
        name = self.choice(classes)
        german = self.choice(_LOCATIVE[name])
        phrase = NounPhrase(noun=self.choice(self.nouns[name]))
        if phrase.noun is not None and phrase.noun.plural:
            phrase.determiner = self.weighted({"def": 70, "indef": 20, "this": 10})
        phrase.adjective = self._adjective(name, 0.2)
        return Place(german, _ENGLISH_PREPOSITION[german], "dat", phrase)

    def _direction(self) -> Place:
        if self.chance(0.25):
            german, english = self.choice(lexicon.CITIES)
            return Place(f"nach {german}", f"to {english}")
        if self.chance(0.4):
            return Place("zu", "to", "dat", NounPhrase(noun=self.choice(self.nouns["building"])))
        noun = self.choice(self.nouns["area"])
        return Place("in", "into", "acc", NounPhrase(noun=noun, determiner=self.choice(["def", "def", "indef"])))

    def _time(self, clause: Clause, tenses: frozenset[str]) -> None:
        clause.time = self.choice([time for time in ALL_TIMES if time.tenses & tenses])
        clause.tense = self.choice(sorted(clause.time.tenses & tenses))

    # Clauses

    def clause(self, tenses: dict[str, int] | None = None, time: float = 0.4, front: bool = True) -> Clause:
        """Draw a main or subordinate clause in one of `tenses`, with a person or an animal as subject.

        front: False for nothing before its subject, as in subordinate clauses and questions.
        """
        weights, animal = tenses or _TENSES, self.chance(0.06)
        subject = self.noun(["animal"], modifiers=0.0) if animal else self.person()
        frame = "i" if animal else self.weighted(_FRAMES)
        clause = Clause(subject, self.choice(self.verbs[frame]), self.weighted(weights))
        self._fill(clause)
        allowed = frozenset(weights) | ({"perfect-past"} if tenses is None else frozenset())
        if self.chance(time) and any(item.tenses & allowed for item in ALL_TIMES):
            self._time(clause, allowed)
        self._adverbs(clause)
        clause.front = clause.front if front else ""
        if clause.tense == "modal":
            clause.modal = self.choice(lexicon.MODALS)
        return clause

    def _fill(self, clause: Clause) -> None:
        """Add the objects and places of the verb's frame."""
        verb = clause.verb
        frame = verb.frame
        if frame == "m":
            clause.places = [self._direction()]
        elif frame == "i" and verb.classes and self.chance(0.6):
            clause.places = [self._location(sorted(verb.classes))]
        elif frame == "i" and not verb.particle and self.chance(0.15):
            clause.places = [Place("zu Hause", "at home")]
        elif frame == "x":
            clause.objects = [self._recipient(clause), self.noun(sorted(verb.classes), clause.subject)]
        elif frame in "tdp" and verb.classes == {"instrument"}:
            clause.objects = [NounPhrase(noun=self.choice(self.nouns["instrument"]), determiner="instrument")]
        elif frame in "tdp":
            clause.objects = [self._object(clause)]
            if clause.verb.english == "repair" and self.chance(0.5):
                clause.instrument = Place("mit", "with", "dat", self.noun(["tool"], modifiers=0))
            elif "person" not in verb.classes and self.chance(0.15):
                clause.places = [self._location(["area"])]

    def _object(self, clause: Clause) -> NounPhrase:
        """Draw an object: a noun, or a pronoun that is not ambiguous in its case."""
        verb = clause.verb
        if "person" in verb.classes and self.chance(0.3):
            return self._object_pronoun(clause, dative=verb.object_case.endswith("dat"))
        return self.noun(sorted(verb.classes), clause.subject)

    def _object_pronoun(self, clause: Clause, dative: bool) -> NounPhrase:
        subject = clause.subject
        first = subject is not None and not subject.first_person and self.chance(0.5)
        if first:
            return NounPhrase(first_person=True, plural=self.chance(0.4))
        if not dative:
            return NounPhrase(gender="m")
        return NounPhrase(gender=self.choice(["m", "f"]), plural=self.chance(0.3))

    def _recipient(self, clause: Clause) -> NounPhrase:
        if self.chance(0.4):
            return self._object_pronoun(clause, True)
        return self.noun(["person"], clause.subject, modifiers=0)

    def _adverbs(self, clause: Clause) -> None:
        """Add fronting, negation or "often"."""
        if clause.time is not None and self.chance(0.5):
            clause.front = "time"
        elif clause.places and clause.verb.frame in "it" and self.chance(0.25):
            clause.front = "place"
        draw = self.random.random()
        if clause.tense == "progressive" or clause.time is not None and draw >= 0.12:
            return
        if draw < 0.12:
            clause.negated = True
            found = [phrase for phrase in clause.objects if phrase.determiner in ("indef", "bare")]
            if found and clause.verb.frame != "p":
                found[0].determiner = "no"
        elif draw < 0.22:
            frequent = [pair for pair in lexicon.MID_ADVERBS if (pair[0] == "bald") == (clause.tense == "future")]
            clause.mid_adverb = self.choice(frequent)

    # Sentence shapes

    def _simple(self) -> Sentence:
        return Sentence(self.clause())

    def _subordinate(self) -> Sentence:
        relation = self.choice(["weil", "obwohl", "wenn", "als", "nachdem"])
        now = {"present": 6, "modal": 2, "future": 2}
        before = {"weil": now, "obwohl": now, "wenn": {"present": 1}, "als": {"past": 1}, "nachdem": {"pluperfect": 1}}
        main = now if relation in ("weil", "obwohl", "wenn") else {"past": 1}
        if relation in ("weil", "obwohl") and self.chance(0.4):
            main, before[relation] = {"past": 1}, {"past": 1}
        if relation in ("wenn", "weil", "obwohl") and "present" in before[relation] and self.chance(0.15):
            inner = Clause(NounPhrase(gender="n", human=False), self.choice(self.verbs["w"]), "present")
        else:
            inner = self.clause(before[relation], time=0.15, front=False)
        first = self.chance(0.45)
        return Sentence(self.clause(main, 0.2, front=not first), joined=(relation, inner), joined_first=first)

    def _because(self) -> Sentence:
        """Draw "weil er müde ist" (he) or "weil er billig ist" (it): only the predicate decides."""
        main = self.clause({"present": 1, "past": 1, "perfect": 1}, time=0.15)
        things = [phrase for phrase in main.objects if phrase.noun is not None and not phrase.noun.classes & _ANIMATE]
        if things and self.chance(0.7):
            thing = things[-1].noun
            assert thing is not None
            fitting = [item for item in ALL_ADJECTIVES if item.classes & thing.classes]
            predicates = [item for item in fitting if not item.classes & _ANIMATE]
            if predicates and things[-1].determiner not in ("every", "instrument", "no"):
                about = NounPhrase(gender=thing.gender, plural=things[-1].plural, human=False)
                return self._joined_predicate(main, about, self.choice(predicates))
        subject = main.subject
        assert subject is not None
        about = NounPhrase(gender=subject.gender, plural=subject.plural, first_person=subject.first_person)
        if subject.gender == "n" and not subject.plural or not subject.human:
            about = NounPhrase(first_person=True)
        return self._joined_predicate(main, about, self._predicate("person", _ANIMATE))

    def _joined_predicate(self, main: Clause, about: NounPhrase, predicate: Adjective) -> Sentence:
        degree = self.choice([None, ("sehr", "very"), ("zu", "too")])
        tense = "past" if main.tense == "past" else "present"
        return Sentence(main, joined=("weil", Clause(about, self.copula, tense, predicate=predicate, degree=degree)))

    def _that(self) -> Sentence:
        inner = self.clause({"present": 4, "past": 3, "perfect": 3, "future": 2, "modal": 2}, 0.2, front=False)
        tense = self.weighted({"present": 5, "past": 5})
        main = Clause(self.person(), self.choice(self.verbs["c"]), tense, complement=("dass", inner))
        main.negated = self.chance(0.15)
        return Sentence(main)

    def _question(self) -> Sentence:
        clause = self.clause(time=0.3, front=False)
        kinds = ["question", "question", "Warum"]
        kinds += ["Wann"] if clause.time is None else []
        kinds += ["Wo"] if not clause.places and clause.verb.frame != "m" else []
        return Sentence(clause, kind=self.choice(kinds))

    def _passive(self) -> Sentence:
        unfit = ("wear", "know")
        verb = self.choice([v for v in self.verbs["t"] if not v.english_preposition and v.english not in unfit])
        if verb.classes == {"instrument"}:
            verb = self.verbs["t"][0]
        subject = self.noun(sorted(verb.classes), modifiers=0.4)
        clause = Clause(subject, verb, self.choice(["present", "past"]), passive=True)
        if self.chance(0.65):
            clause.places = [Place("von", "by", "dat", self.noun(["person"], modifiers=0))]
        if self.chance(0.4):
            self._time(clause, frozenset({clause.tense}))
            clause.front = "time" if self.chance(0.5) else ""
        clause.negated = self.chance(0.12)
        return Sentence(clause)

    def _copula(self) -> Sentence:
        name = self.choice(["person", "animal", "ware", "clothes", "building", "food", "text", "area"])
        subject = self.noun([name], modifiers=1.5)
        while subject.noun is None or self.senses[subject.noun.gender, subject.noun.singular] > 1:
            subject = self.noun([name], modifiers=1.5)
        degree = self.choice([None, ("sehr", "very"), ("zu", "too")])
        tense = self.choice(["present", "past"])
        clause = Clause(subject, self.copula, tense, predicate=self._predicate(name), degree=degree)
        clause.negated = self.chance(0.2)
        return Sentence(clause)

    def _infinitive(self) -> Sentence:
        if self.chance(0.4):
            main, conjunction = self.clause({"present": 2, "past": 2, "perfect": 1}, time=0.1), "um"
            main.negated = False
            for phrase in main.objects:
                phrase.determiner = "indef" if phrase.determiner == "no" else phrase.determiner
        else:
            tense = self.weighted({"present": 5, "past": 5, "perfect": 3})
            main, conjunction = Clause(self.person(), self.choice(self.verbs["z"]), tense), "zu"
        inner = Clause(None, self.choice(self.verbs[self.weighted({"t": 6, "d": 1, "x": 1, "m": 1})]), "infinitive")
        self._fill(inner)
        main.complement = (conjunction, inner)
        return Sentence(main)

    def _coordinated(self) -> Sentence:
        tenses = self.choice([{"present": 1}, {"past": 1}, {"perfect": 1}])
        first, second = self.clause(tenses, time=0.15), self.clause(tenses, 0.1, front=False)
        return Sentence(first, joined=(self.choice(["und", "aber"]), second))
