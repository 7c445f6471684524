"""The toy corpus: word order and agreement by sentences, fitting trees, and the text as it was checked."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest

from corpora.tokens import moses_tokenize
from corpora.toy import english as toy_english
from corpora.toy import german as toy_german
from corpora.toy import grammar as toy_grammar
from corpora.toy import lexicon
from corpora.toy.meaning import Clause, NounPhrase, Place, Sentence

Pair = tuple[str, str, str]


@pytest.fixture(scope="module")
def corpus() -> list[Pair]:
    return list(islice(toy_grammar.pairs(seed=1), 6000))


def noun(german: str, **modifiers) -> NounPhrase:
    gender = {"der": "m", "die": "f", "das": "n"}[german.split()[0]]
    entry = next(n for n in lexicon.ALL_NOUNS if (n.gender, n.singular) == (gender, german.split()[1]))
    return NounPhrase(noun=entry, **modifiers)


def verb(english: str, particle: str = "", frame: str = "") -> lexicon.Verb:
    return next(
        v for v in lexicon.ALL_VERBS
        if v.english == english and v.particle == particle and v.frame.startswith(frame)
    )  # fmt: skip


def adjective(german: str) -> lexicon.Adjective:
    return next(a for a in lexicon.ALL_ADJECTIVES if a.german == german)


def both(meaning: Sentence) -> tuple[str, str]:
    german = toy_grammar.join(toy_german.sentence(meaning))
    return german, toy_grammar.join([leaf.word for leaf in toy_english.sentence(meaning).leaves()])


def run(out: Path, *options: str, hash_seed: str = "0") -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "corpora.toy.grammar", str(out), *options]
    return subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True)


# Word order and agreement, one meaning each


def test_separable_verb_by_clause_type():
    call: dict[str, Any] = dict(verb=verb("call", "an"), objects=[noun("der Bruder")])
    subject = noun("die Frau")
    assert both(Sentence(Clause(subject, **call))) == ("Die Frau ruft den Bruder an.", "The woman calls the brother.")
    assert both(Sentence(Clause(subject, tense="past", **call), kind="question")) == (
        "Rief die Frau den Bruder an?", "Did the woman call the brother?",
    )  # fmt: skip
    that = Clause(NounPhrase(), verb("say"), "past", complement=("dass", Clause(subject, **call)))
    assert both(Sentence(that)) == (
        "Er sagte, dass die Frau den Bruder anruft.", "He said that the woman calls the brother.",
    )  # fmt: skip
    attempt = Clause(NounPhrase(), verb("try"), "perfect", complement=("zu", Clause(None, tense="infinitive", **call)))
    assert both(Sentence(attempt)) == (
        "Er hat versucht, den Bruder anzurufen.", "He has tried to call the brother.",
    )  # fmt: skip


def test_verb_second_after_adverbial_and_clause():
    read = Clause(
        noun("der Student", plural=True), verb("read"), "past", [noun("das Buch", adjective=adjective("neu"))]
    )
    read.time = next(t for t in lexicon.ALL_TIMES if t.german == "am Abend")
    read.front = "time"
    assert both(Sentence(read)) == (
        "Am Abend lasen die Studenten das neue Buch.",
        "In the evening the students read the new book.",
    )
    sleep = Clause(noun("der Hund"), verb("sleep"), places=[Place("in", "in", "dat", noun("der Park"))])
    rain = Clause(NounPhrase(gender="n", human=False), verb("rain"))
    assert both(Sentence(sleep, joined=("wenn", rain), joined_first=True)) == (
        "Wenn es regnet, schläft der Hund im Park.", "If it rains, the dog sleeps in the park.",
    )  # fmt: skip


def test_perfect_before_yesterday_is_simple_past():
    buy = Clause(
        NounPhrase(), verb("buy"), "perfect", [noun("der Hut", determiner="indef", adjective=adjective("rot"))]
    )
    assert both(Sentence(buy)) == ("Er hat einen roten Hut gekauft.", "He has bought a red hat.")
    buy.tense, buy.time = "perfect-past", next(t for t in lexicon.ALL_TIMES if t.german == "gestern")
    assert both(Sentence(buy)) == ("Er hat gestern einen roten Hut gekauft.", "He bought a red hat yesterday.")


def test_dative_negation_modal_passive():
    friend = noun("der Freund", plural=True, determiner="poss", owner=NounPhrase(gender="f"))
    help_ = Clause(NounPhrase(gender="f"), verb("help"), "modal", [friend], modal=lexicon.MODALS[-1], negated=True)
    assert both(Sentence(help_)) == (
        "Sie will ihren Freunden nicht helfen.", "She does not want to help her friends.",
    )  # fmt: skip
    by = toy_english.passive_agent(noun("der Nachbar", determiner="indef", adjective=adjective("alt")))
    built = Clause(noun("das Haus"), verb("build"), "past", passive=True, places=[by])
    assert both(Sentence(built)) == (
        "Das Haus wurde von einem alten Nachbarn gebaut.", "The house was built by an old neighbour.",
    )  # fmt: skip


def test_relative_clause_is_verb_final_and_keeps_case():
    wait = Clause(noun("der Onkel"), verb("wait", frame="p"), gap="object")
    head = noun("der Arzt", relative=wait)
    assert both(Sentence(Clause(head, verb("sleep"), "future"))) == (
        "Der Arzt, auf den der Onkel wartet, wird schlafen.", "The doctor who the uncle waits for will sleep.",
    )  # fmt: skip


def test_they_and_she_differ_in_the_verb_only():
    she, they = (Clause(NounPhrase(gender="f", plural=plural), verb("sleep")) for plural in (False, True))
    assert both(Sentence(she)) == ("Sie schläft.", "She sleeps.")
    assert both(Sentence(they)) == ("Sie schlafen.", "They sleep.")


def test_er_is_it_where_no_person_can_be_meant():
    sell = Clause(noun("der Mann"), verb("sell"), "past", [noun("der Tisch")])
    for german, pronoun, human in (("teuer", "it", False), ("müde", "he", True)):
        because = Clause(NounPhrase(human=human), verb("be"), "past", predicate=adjective(german))
        english = adjective(german).english
        assert both(Sentence(sell, joined=("weil", because))) == (
            f"Der Mann verkaufte den Tisch, weil er {german} war.",
            f"The man sold the table because {pronoun} was {english}.",
        )


def test_tree_of_a_sentence():
    owner = NounPhrase(name=("Anna", "Anna"), gender="f")
    opened = Clause(
        noun("der Bruder", determiner="genitive", owner=owner), verb("open", "auf"), "perfect", [noun("das Schloss")]
    )
    assert both(Sentence(opened))[0] == "Annas Bruder hat das Schloss aufgemacht."
    assert str(toy_english.sentence(Sentence(opened))) == (
        "(ROOT (S (NP (NP (NNP Anna) (POS 's)) (NN brother)) "
        "(VP (VBZ has) (VP (VBN opened) (NP (DT the) (NN lock)))) (. .)))"
    )


# The corpus as a whole


def test_the_corpus_is_the_one_that_was_checked(corpus):
    """Articles agree, both senses of a homonym occur, neither copying nor a table of words translates it.

    A change of the grammar changes this checksum; look at the sentences that differ before it is renewed.
    """
    text = "".join("\t".join(pair) + "\n" for pair in corpus)
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "4866f18f772535b5d9d696c651c8feafc799675e32b5e2353308d76c4157a23e"
    )
    for side in (0, 1):
        assert len({pair[side] for pair in corpus}) == len(corpus), "a sentence comes twice"


def test_homonyms_never_share_a_context():
    """No verb takes two senses of one German noun, no place preposition leads to both."""
    for one, two in combinations(lexicon.ALL_NOUNS, 2):
        if (one.gender, one.singular) != (two.gender, two.singular):
            continue
        assert not one.classes & two.classes, one.singular
        for entry in lexicon.ALL_VERBS:
            if entry.frame in "tdpx":
                assert not (one.classes & entry.classes and two.classes & entry.classes), (
                    one.singular,
                    entry.infinitive,
                )


def test_tree_leaves_are_the_moses_tokens(corpus):
    tokenize = moses_tokenize.Tokenizer("en")
    for _, english, tree in corpus[:1500]:
        assert re.findall(r" ([^\s()]+)\)", tree) == tokenize(english).split()
        assert tree.count("(") == tree.count(")")
    assert any("&apos;s" in tree for _, _, tree in corpus[:1500])


def test_splits_are_the_same_in_any_process(tmp_path):
    sizes = ["--train", "600", "--valid", "60", "--test", "50"]
    for name, hash_seed, seed in (("a", "1", "7"), ("b", "2", "7"), ("c", "1", "8")):
        assert run(tmp_path / name, "--seed", seed, *sizes, hash_seed=hash_seed).returncode == 0
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(f"{split}.{end}" for split in ("train", "valid", "test") for end in ("de", "en", "en.tree"))
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert (tmp_path / "a" / name).read_bytes() != (tmp_path / "c" / name).read_bytes()


def test_bad_options_are_one_line_and_write_nothing(tmp_path):
    done = run(tmp_path / "out", "--train", "0")
    assert done.returncode != 0 and "expected a number from 1" in done.stderr
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("mine")
    done = run(tmp_path / "file")
    assert done.returncode != 0 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    assert (tmp_path / "file").read_text() == "mine"
