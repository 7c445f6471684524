"""German side of the toy corpus: agreement, verb forms and word order."""

from __future__ import annotations

from corpora.toy.lexicon import Verb
from corpora.toy.meaning import Clause, NounPhrase, Place, Sentence

# Columns: masculine, feminine, neuter, plural
_COLUMN = {"m": 0, "f": 1, "n": 2, "p": 3}
_THE = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"}
_EIN_ENDINGS = {"nom": ["", "e", "", "e"], "acc": ["en", "e", "", "e"], "dat": ["em", "er", "em", "en"]}
_WEAK = {"nom": ["e", "e", "e", "en"], "acc": ["en", "e", "e", "en"], "dat": ["en", "en", "en", "en"]}
_MIXED = {"nom": ["er", "e", "es", "en"], "acc": ["en", "e", "es", "en"], "dat": ["en", "en", "en", "en"]}
_STRONG = {"nom": ["er", "e", "es", "e"], "acc": ["en", "e", "es", "e"], "dat": ["em", "er", "em", "en"]}
_CASES = ("nom", "acc", "dat")
_PRONOUNS = {
    "1s": "ich mich mir", "1p": "wir uns uns", "3p": "sie sie ihnen", "m": "er ihn ihm", "f": "sie sie ihr",
    "n": "es es ihm",
}  # fmt: skip
_CONTRACTIONS = {
    ("in", "dem"): "im", ("an", "dem"): "am", ("zu", "dem"): "zum", ("zu", "der"): "zur", ("von", "dem"): "vom",
    ("in", "das"): "ins",
}  # fmt: skip
_AUXILIARIES = {  # present 1s, 3s, plural; past singular, plural
    "haben": ("habe", "hat", "haben", "hatte", "hatten"),
    "sein": ("bin", "ist", "sind", "war", "waren"),
    "werden": ("werde", "wird", "werden", "wurde", "wurden"),
}


def noun_phrase(phrase: NounPhrase, case: str) -> list[str]:
    """Return the words of a noun phrase in a case (nom, acc or dat), and of its relative clause between commas."""
    if phrase.name is not None:
        return [phrase.name[0]]
    if phrase.noun is None:
        key = phrase.agreement if phrase.first_person or phrase.plural else phrase.gender
        return [_PRONOUNS[key].split()[_CASES.index(case)]]
    words, endings = _determiner(phrase, case)
    column = _COLUMN["p" if phrase.plural else phrase.gender]
    if phrase.adjective is not None:
        words = [*words, phrase.adjective.stem + endings[case][column]]
    words = [*words, _noun(phrase, case)]
    if phrase.modifier is not None:
        words += place(phrase.modifier)
    if phrase.relative is not None:
        words += [",", *_relative(phrase, phrase.relative), ","]
    return words


def _determiner(phrase: NounPhrase, case: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the determiner, and the table of endings of an adjective after it."""
    column = _COLUMN["p" if phrase.plural else phrase.gender]
    kind = phrase.determiner
    if kind == "def":
        return [_THE[case].split()[column]], _WEAK
    if kind in ("this", "every"):
        return [("dies" if kind == "this" else "jed") + _STRONG[case][column]], _WEAK
    if kind in ("indef", "no", "poss"):
        stem = {"indef": "ein", "no": "kein"}.get(kind) or _possessive(phrase.owner)
        ending = _EIN_ENDINGS[case][column]
        return [stem + ending], _MIXED
    if kind == "genitive":
        assert phrase.owner is not None and phrase.owner.name is not None
        return [phrase.owner.name[0] + "s"], _STRONG
    return {"two": ["zwei"], "three": ["drei"]}.get(kind, []), _STRONG


def _possessive(owner: NounPhrase | None) -> str:
    assert owner is not None
    if owner.first_person:
        return "unser" if owner.plural else "mein"
    return "ihr" if owner.plural or owner.gender == "f" else "sein"


def _noun(phrase: NounPhrase, case: str) -> str:
    noun = phrase.noun
    assert noun is not None
    if phrase.plural:
        return noun.plural + ("n" if case == "dat" and noun.plural[-1] not in "ns" else "")
    return noun.plural if noun.weak and case != "nom" else noun.singular


def _relative(head: NounPhrase, clause: Clause) -> list[str]:
    case = "nom" if clause.gap == "subject" else clause.verb.object_case
    preposition, case = case.split("+") if "+" in case else ("", case)
    pronoun = _THE[case].split()[_COLUMN["p" if head.plural else head.gender]]
    if pronoun == "den" and case == "dat":
        pronoun = "denen"
    return [*([preposition] if preposition else []), pronoun, *verb_final(clause)]


def place(phrase: Place) -> list[str]:
    """Return the words of a prepositional phrase, with "in dem" contracted to "im" and so on."""
    if phrase.phrase is None:
        return phrase.german.split()
    words = noun_phrase(phrase.phrase, phrase.case)
    contracted = _CONTRACTIONS.get((phrase.german, words[0]))
    if contracted is not None and phrase.phrase.noun is not None:
        return [contracted, *words[1:]]
    return [phrase.german, *words]


def _auxiliary(name: str, agreement: str, past: bool = False) -> str:
    forms = _AUXILIARIES[name]
    if past:
        return forms[4] if agreement.endswith("p") else forms[3]
    return forms[2] if agreement.endswith("p") else forms[0 if agreement == "1s" else 1]


def _finite(verb: Verb, agreement: str, past: bool) -> str:
    if verb.infinitive == "sein":
        return _auxiliary("sein", agreement, past)
    if past:
        plural = "n" if verb.past.endswith("e") else "en"
        return verb.past + (plural if agreement.endswith("p") else "")
    if agreement.endswith("p"):
        return verb.infinitive
    if agreement == "1s":
        if verb.infinitive.endswith("eln"):
            return verb.infinitive.removesuffix("eln") + "le"
        return "weiß" if verb.infinitive == "wissen" else verb.infinitive.removesuffix("n").removesuffix("e") + "e"
    return verb.present


def verb_forms(clause: Clause) -> tuple[str, list[str]]:
    """Return the finite verb and the end of a main clause: participle, infinitive or separated particle."""
    verb, tense = clause.verb, clause.tense
    agreement = clause.subject.agreement if clause.subject is not None else "3s"
    infinitive = verb.particle + verb.infinitive
    if clause.passive:
        return _auxiliary("werden", agreement, tense == "past"), [verb.participle]
    if tense in ("perfect", "perfect-past", "pluperfect"):
        return _auxiliary(verb.auxiliary, agreement, tense == "pluperfect"), [verb.participle]
    if tense == "future":
        return _auxiliary("werden", agreement), [infinitive]
    if tense == "modal":
        assert clause.modal is not None
        return clause.modal[0] if agreement.endswith("p") else clause.modal[1], [infinitive]
    if tense == "infinitive":
        return "", [f"{verb.particle}zu{verb.infinitive}"] if verb.particle else ["zu", verb.infinitive]
    return _finite(verb, agreement, tense == "past"), [verb.particle] if verb.particle else []


def _middle(clause: Clause, with_time: bool = True, with_place: bool = True) -> list[str]:
    """Return the words between the finite verb and the end of the clause, without the subject."""
    cases = _object_cases(clause)
    pairs = list(zip(clause.objects, cases, strict=True))
    words: list[str] = []
    for phrase, case in pairs:
        if phrase.pronoun and "+" not in case:
            words += noun_phrase(phrase, case)
    if clause.time is not None and with_time:
        words += clause.time.german.split()
    if clause.tense == "progressive":
        words.append("gerade")
    if clause.mid_adverb is not None:
        words.append(clause.mid_adverb[0])
    for phrase, case in pairs:
        if not phrase.pronoun and "+" not in case:
            words += noun_phrase(phrase, case)
    if clause.negated and not any(phrase.determiner == "no" for phrase in clause.objects):
        words.append("nicht")
    for phrase, case in pairs:
        if "+" in case:
            preposition, case = case.split("+")
            words += place(Place(preposition, "", case, phrase))
    if clause.instrument is not None:
        words += place(clause.instrument)
    for item in clause.places if with_place else []:
        words += place(item)
    if clause.predicate is not None:
        words += [*([clause.degree[0]] if clause.degree else []), clause.predicate.german]
    return words


def _object_cases(clause: Clause) -> list[str]:
    if clause.verb.frame == "x":
        return ["dat", "acc"] if len(clause.objects) == 2 else ["dat"]  # one object: the other is a relative pronoun
    return [clause.verb.object_case] * len(clause.objects)


def _complement(clause: Clause) -> list[str]:
    if clause.complement is None:
        return []
    conjunction, inner = clause.complement
    opening = [","] if conjunction == "zu" else [",", conjunction]
    return [*opening, *verb_final(inner), ","]


def verb_final(clause: Clause) -> list[str]:
    """Return the words of a subordinate or infinitive clause: finite verb last, joined to its particle."""
    finite, end = verb_forms(clause)
    subject = [] if clause.subject is None or clause.gap == "subject" else noun_phrase(clause.subject, "nom")
    simple = clause.verb.particle and end == [clause.verb.particle]
    closing = [clause.verb.particle + finite] if simple else [*end, *([finite] if finite else [])]
    return [*subject, *_middle(clause), *closing, *_complement(clause)]


def verb_second(clause: Clause, first: list[str] | None = None) -> list[str]:
    """Return the words of a main clause; first: words before the verb (none: a yes/no question)."""
    finite, end = verb_forms(clause)
    assert clause.subject is not None
    subject = noun_phrase(clause.subject, "nom")
    fronted = clause.front if first is None else ""
    if fronted == "time":
        assert clause.time is not None
        first = clause.time.german.split()
    elif fronted == "place":
        first = place(clause.places[0])
    middle = _middle(clause, with_time=fronted != "time", with_place=fronted != "place")
    if first is None:
        return [*subject, finite, *middle, *end, *_complement(clause)]
    return [*first, finite, *subject, *middle, *end, *_complement(clause)]


def sentence(meaning: Sentence) -> list[str]:
    """Return the tokens of a sentence, with final punctuation and capitalised first word."""
    if meaning.kind == "question":
        return finish(verb_second(meaning.main, []), "?")
    if meaning.kind != "statement":
        return finish(verb_second(meaning.main, [meaning.kind]), "?")
    if meaning.joined is None:
        return finish(verb_second(meaning.main), ".")
    relation, clause = meaning.joined
    if relation in ("und", "aber"):
        return finish([*verb_second(meaning.main), ",", relation, *verb_second(clause)], ".")
    subordinate = [relation, *verb_final(clause)]
    if meaning.joined_first:
        return finish(verb_second(meaning.main, [*subordinate, ","]), ".")
    return finish([*verb_second(meaning.main), ",", *subordinate], ".")


def finish(words: list[str], punctuation: str) -> list[str]:
    """Remove doubled commas and the one before the final mark; capitalise the first word."""
    kept: list[str] = []
    for word in [*words, punctuation]:
        if kept and kept[-1] == "," and word in (",", punctuation):
            kept.pop()
        kept.append(word)
    return [kept[0][0].upper() + kept[0][1:], *kept[1:]]
