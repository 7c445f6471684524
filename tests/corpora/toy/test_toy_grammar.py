"""The toy corpus: the text as it was checked, rules of both languages by examples of it, fitting trees."""

from __future__ import annotations

import hashlib
import re
import sys
from itertools import combinations, islice
from pathlib import Path

import pytest

from corpora.tokens import moses_tokenize
from corpora.toy import grammar as toy_grammar
from corpora.toy import lexicon
from support.corpora.prep import SPLITS, call, contents

EXAMPLES = {
    ("Der Maler hat angefangen, ihn anzurufen.", "The painter has begun to call him."),
    ("Wenn es regnet, schläft die Mutter im Dorf.", "If it rains, the mother sleeps in the village."),
    ("Julia hat gestern einen Kunden besucht.", "Julia visited a customer yesterday."),
    ("Der Brief wurde von einem Studenten vorgelesen.", "The letter was recited by a student."),
    ("Jan sah keinen Garten.", "Jan did not see a garden."),
    ("Ein Vogel, auf den jeder Vater aufpasst, ist schwarz.", "A bird which every father looks after is black."),
    ("Der Richter kochte den Kuchen, weil er billig war.", "The judge cooked the cake because it was cheap."),
    ("Jan gab auf, weil er sehr müde war.", "Jan gave up because he was very tired."),
}


@pytest.fixture(scope="module")
def corpus() -> list[tuple[str, str, str]]:
    return list(islice(toy_grammar.pairs(seed=1), 6000))


def test_the_corpus_is_the_one_that_was_checked(corpus):
    """Articles agree, both senses of a homonym occur, neither copying nor a table of words translates it.

    A change of the text changes VERSION; look at the sentences that differ before it is renewed.
    """
    text = "".join("\t".join(pair) + "\n" for pair in corpus)
    assert hashlib.sha256(text.encode()).hexdigest()[: len(toy_grammar.VERSION)] == toy_grammar.VERSION
    trees = {(german, english): tree for german, english, tree in corpus}
    assert EXAMPLES <= trees.keys()
    assert trees["Julia hat gestern einen Kunden besucht.", "Julia visited a customer yesterday."] == (
        "(ROOT (S (NP (NNP Julia)) (VP (VBD visited) (NP (DT a) (NN customer)) (NP (NN yesterday))) (. .)))"
    )
    for side in (0, 1):
        assert len({pair[side] for pair in corpus}) == len(corpus), "a sentence comes twice"


def test_homonyms_never_share_a_context():
    """No verb takes two senses of one German noun, no place preposition leads to both."""
    for one, two in combinations(lexicon.ALL_NOUNS, 2):
        if (one.gender, one.singular) == (two.gender, two.singular):
            assert not one.classes & two.classes, one.singular
            for verb in lexicon.ALL_VERBS:
                if verb.frame in "tdpx":
                    assert not (one.classes & verb.classes and two.classes & verb.classes), (one, verb)


def test_tree_leaves_are_the_moses_tokens(corpus):
    tokenize = moses_tokenize.Tokenizer("en")
    for _, english, tree in corpus[:1500]:
        assert re.findall(r" ([^\s()]+)\)", tree) == tokenize(english).split()
        assert tree.count("(") == tree.count(")")
    assert any("&apos;s" in tree for _, _, tree in corpus[:1500])


def test_splits_are_the_same_in_any_process(tmp_path: Path):
    """The order of a set of strings differs between processes."""
    work = "from corpora.toy.grammar import *; write(Path('{}'), {}, dict(train=600, valid=60, test=50))"
    for name, seed in (("1", 7), ("2", 7), ("3", 8)):
        done = call(sys.executable, "-c", work.format(tmp_path / name, seed), PYTHONHASHSEED=name)
        assert done.returncode == 0, done.stderr
    one, two, other = (contents(tmp_path / name) for name in "123")
    assert one.keys() == {f"{split}.{end}" for split in SPLITS for end in ("de", "en", "en.tree")}
    assert one == two and not set(one.values()) & set(other.values())
