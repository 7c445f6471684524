"""English side of the toy corpus: inflection, word order, and the constituency tree of each sentence.

Labels are the Penn Treebank's, without function labels and without empty nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from corpora.toy.lexicon import Verb
from corpora.toy.meaning import Clause, NounPhrase, Place, Sentence

_PRONOUNS = {"1s": ("I", "me"), "1p": ("we", "us"), "3p": ("they", "them"), "m": ("he", "him"), "f": ("she", "her")}
_POSSESSIVES = {"1s": "my", "1p": "our", "3p": "their", "m": "his", "f": "her", "n": "its"}
_DETERMINERS = {"def": "the", "this": "this", "every": "every", "instrument": "the"}
_BE = {"1s": ("am", "was"), "3s": ("is", "was"), "1p": ("are", "were"), "3p": ("are", "were")}
_CONJUNCTIONS = {
    "weil": "because", "wenn": "if", "obwohl": "although", "als": "when", "nachdem": "after", "dass": "that",
    "und": "and", "aber": "but",
}  # fmt: skip
_QUESTION_WORDS = {"Warum": "why", "Wann": "when", "Wo": "where"}


@dataclass
class Tree:
    """A constituent with its children, or a part-of-speech tag with one word."""

    label: str
    children: list[Tree]
    word: str = ""

    def leaves(self) -> list[Tree]:
        """Return the nodes with a word, from left to right."""
        return [self] if self.word else [leaf for child in self.children for leaf in child.leaves()]

    def __str__(self) -> str:
        return f"({self.label} {self.word or ' '.join(map(str, self.children))})"


def _word(tag: str, word: str) -> Tree:
    return Tree(tag, [], word)


def _prepositional(preposition: str, *children: Tree) -> Tree:
    return Tree("PP", [_word("TO" if preposition == "to" else "IN", preposition), *children])


def noun_phrase(phrase: NounPhrase, subject: bool = False) -> Tree:
    """Return the tree of a noun phrase; subject: "he" instead of "him"."""
    if phrase.name is not None:
        return Tree("NP", [_word("NNP", phrase.name[1])])
    if phrase.noun is None:
        return Tree("NP", [_word("PRP", _pronoun(phrase, subject))])
    mass = not phrase.noun.plural
    noun = _word("NNS" if phrase.plural else "NN", phrase.noun.english_plural if phrase.plural else phrase.noun.english)
    adjectives = [_word("JJ", phrase.adjective.english)] if phrase.adjective is not None else []
    tree = Tree("NP", [*_determiner(phrase, mass, (adjectives or [noun])[0].word), *adjectives, noun])
    if phrase.modifier is not None:
        tree = Tree("NP", [tree, place(phrase.modifier)])
    if phrase.relative is not None:
        pronoun = Tree("WHNP", [_word("WP", "who") if phrase.human else _word("WDT", "which")])
        tree = Tree("NP", [tree, Tree("SBAR", [pronoun, clause_tree(phrase.relative)])])
    return tree


def _pronoun(phrase: NounPhrase, subject: bool) -> str:
    if not (phrase.first_person or phrase.plural) and (phrase.gender == "n" or not phrase.human):
        return "it"
    key = phrase.agreement if phrase.first_person or phrase.plural else phrase.gender
    return _PRONOUNS[key][0 if subject else 1]


def _determiner(phrase: NounPhrase, mass: bool, following: str) -> list[Tree]:
    kind = phrase.determiner
    if kind in _DETERMINERS:
        return [_word("DT", "these" if kind == "this" and phrase.plural else _DETERMINERS[kind])]
    if kind in ("indef", "no"):
        return [] if phrase.plural or mass else [_word("DT", "an" if following[0] in "aeiou" else "a")]
    if kind == "poss":
        assert phrase.owner is not None
        key = phrase.owner.agreement
        return [_word("PRP$", _POSSESSIVES[phrase.owner.gender if key == "3s" else key])]
    if kind == "genitive":
        assert phrase.owner is not None and phrase.owner.name is not None
        return [Tree("NP", [_word("NNP", phrase.owner.name[1]), _word("POS", "'s")])]
    return [_word("CD", kind)] if kind in ("two", "three") else []


def place(phrase: Place) -> Tree:
    """Return the tree of a prepositional phrase, or of a fixed phrase such as "at home"."""
    if phrase.phrase is None:
        preposition, *rest = phrase.english.split()
        noun = "NNP" if rest[0][0].isupper() else "NN"
        return _prepositional(preposition, Tree("NP", [_word(noun, word) for word in rest]))
    inner = noun_phrase(phrase.phrase)
    if phrase.english == "in front of":
        return _prepositional("in", Tree("NP", [Tree("NP", [_word("NN", "front")]), _prepositional("of", inner)]))
    return _prepositional(phrase.english, inner)


def _verb_chain(clause: Clause, do_support: bool) -> list[Tree]:
    """Return the verbs, finite one first: [has, bought], [does, read], [will, read], [is, reading], [was, bought]."""
    verb, tense = clause.verb, clause.tense
    agreement = clause.subject.agreement if clause.subject is not None else "3s"
    third = agreement == "3s"
    past = tense in ("past", "perfect-past")
    base, participle = _word("VB", verb.english), _word("VBN", verb.english_participle)
    if clause.passive or tense == "progressive" or verb.english == "be":
        be = _word("VBD" if past else "VBZ" if third else "VBP", _BE[agreement][past])
        if verb.english == "be":
            return [be]
        return [be, participle if clause.passive else _word("VBG", verb.english_ing)]
    compound = {
        "infinitive": [_word("TO", "to"), base], "future": [_word("MD", "will"), base],
        "perfect": [_word("VBZ", "has") if third else _word("VBP", "have"), participle],
        "pluperfect": [_word("VBD", "had"), participle],
    }  # fmt: skip
    if tense in compound:
        return compound[tense]
    if tense == "modal" and clause.modal is not None and clause.modal[2] != "want":
        return [_word("MD", clause.modal[2]), base]
    wants = tense == "modal"
    lexical, tail = ("want", [_word("TO", "to"), base]) if wants else (verb.english, [])
    if do_support:
        do = _word("VBD", "did") if past else _word("VBZ", "does") if third else _word("VBP", "do")
        return [do, _word("VB", lexical), *tail]
    if past:
        return [_word("VBD", verb.english_past)]
    finite = _word("VBZ", "wants" if wants else verb.english_third) if third else _word("VBP", lexical)
    return [finite, *tail]


def _verb_phrase(chain: list[Tree], after_first: list[Tree], rest: list[Tree]) -> Tree:
    """Return right-branching verb phrases; "not" or "often" follows the auxiliary or precedes the only verb."""
    if len(chain) == 1:
        copula = chain[0].word in {form for forms in _BE.values() for form in forms}
        return Tree("VP", [chain[0], *after_first, *rest] if copula else [*after_first, chain[0], *rest])
    inner = _verb_phrase(chain[1:], [], rest)
    if chain[1].label == "TO":  # "wants (S (VP to read))"
        inner = Tree("S", [inner])
    if after_first and after_first[0].label == "ADVP" and chain[0].word in ("wants", "want"):
        return Tree("VP", [*after_first, chain[0], inner])
    return Tree("VP", [chain[0], *after_first, inner])


def _adverbs(clause: Clause) -> list[Tree]:
    if clause.negated:
        return [_word("RB", "not")]
    return [Tree("ADVP", [_word("RB", clause.mid_adverb[1])])] if clause.mid_adverb is not None else []


def _arguments(clause: Clause) -> list[Tree]:
    """Return the nodes after the last verb: objects and particle, places, time, complement."""
    verb = clause.verb
    objects = [noun_phrase(phrase) for phrase in clause.objects]
    if verb.english_preposition:
        objects = [_prepositional(verb.english_preposition, *objects)]
    particle = _particle(verb)
    pronoun_first = bool(clause.objects) and clause.objects[0].pronoun
    nodes = [*objects, *particle] if pronoun_first and not verb.english_preposition else [*particle, *objects]
    if clause.passive:
        nodes = particle
    if clause.predicate is not None:
        degree = [_word("RB", clause.degree[1])] if clause.degree is not None else []
        nodes.append(Tree("ADJP", [*degree, _word("JJ", clause.predicate.english)]))
    if clause.instrument is not None:
        nodes.append(place(clause.instrument))
    nodes += [place(item) for item in clause.places if not (clause.front == "place" and item is clause.places[0])]
    if clause.time is not None and clause.front != "time":
        nodes.append(_time(clause))
    if clause.complement is not None:
        nodes.append(_complement(*clause.complement))
    return nodes


def _particle(verb: Verb) -> list[Tree]:
    if verb.english_particle == "asleep":
        return [Tree("ADJP", [_word("JJ", "asleep")])]
    if verb.english_particle in ("away", "back", "along"):
        return [Tree("ADVP", [_word("RB", verb.english_particle)])]
    return [Tree("PRT", [_word("RP", verb.english_particle)])] if verb.english_particle else []


def _time(clause: Clause) -> Tree:
    assert clause.time is not None
    words = [_word(tag, word) for word, tag in (item.split("/") for item in clause.time.english.split())]
    if words[0].label == "IN":
        return Tree("PP", [words[0], Tree("NP", words[1:])])
    return Tree("ADVP" if words[0].label == "RB" else "NP", words)


def _complement(conjunction: str, clause: Clause) -> Tree:
    inner = clause_tree(clause)
    if conjunction == "um":
        order = [_word("IN", "in"), _word("NN", "order")]
        return Tree("SBAR", [*order, inner])
    return inner if conjunction == "zu" else Tree("SBAR", [_word("IN", _CONJUNCTIONS[conjunction]), inner])


def clause_tree(clause: Clause, first: list[Tree] | None = None) -> Tree:
    """Return the S of a clause, fronted phrase first; only the VP without subject (relative clause, infinitive)."""
    verb_phrase = _verb_phrase(_verb_chain(clause, clause.negated), _adverbs(clause), _arguments(clause))
    nodes = list(first or [])
    if clause.front == "time":
        nodes.append(_time(clause))
    elif clause.front == "place":
        nodes.append(place(clause.places[0]))
    if clause.subject is not None and clause.gap != "subject":
        nodes.append(noun_phrase(clause.subject, subject=True))
    return Tree("S", [*nodes, verb_phrase])


def _question(clause: Clause) -> Tree:
    """Return the SQ of a clause: the finite verb before the subject."""
    assert clause.subject is not None
    chain = _verb_chain(clause, do_support=True)
    rest = _arguments(clause)
    if chain[1:]:
        rest = [_verb_phrase(chain[1:], [], rest)]
    return Tree("SQ", [chain[0], noun_phrase(clause.subject, subject=True), *_adverbs(clause), *rest])


def sentence(meaning: Sentence) -> Tree:
    """Return the tree of a sentence under ROOT, with final punctuation and capitalised first word."""
    mark, comma = "." if meaning.kind == "statement" else "?", _word(",", ",")
    if meaning.kind == "question":
        top = _question(meaning.main)
    elif meaning.kind != "statement":
        adverb = Tree("WHADVP", [_word("WRB", _QUESTION_WORDS[meaning.kind])])
        top = Tree("SBARQ", [adverb, _question(meaning.main)])
    elif meaning.joined is None:
        top = clause_tree(meaning.main)
    else:
        relation, clause = meaning.joined
        word = _CONJUNCTIONS[relation]
        if relation in ("und", "aber"):
            top = Tree("S", [clause_tree(meaning.main), comma, _word("CC", word), clause_tree(clause)])
        else:
            subordinate = Tree("SBAR", [_word("IN", word), clause_tree(clause)])
            if meaning.joined_first:
                top = clause_tree(meaning.main, [subordinate, comma])
            else:
                top = clause_tree(meaning.main)
                top.children[-1].children.append(subordinate)
    top.children.append(_word(".", mark))
    first = top.leaves()[0]
    first.word = first.word[0].upper() + first.word[1:]
    return Tree("ROOT", [top])
