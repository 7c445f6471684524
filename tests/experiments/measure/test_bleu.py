"""BLEU by scoring.translation(): several references, compounds, languages, lengths; and the bootstrap."""

from __future__ import annotations

import importlib.util
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from experiments.measure import bleu, scoring, significance
from experiments.measure.generated import ScoreError
from support.engine.outputs import assert_one_line, noisy, run_score, write_lines, write_output

DRAW = random.Random(5)
SOURCES = [" ".join(DRAW.choices("abcdefgh", k=length)) for length in (1, 10, 11, 20, 25, 35, 45, 50, 51, 80) * 3]
REFERENCES = [" ".join(DRAW.choices("the old man reads a red book in his house .".split(), k=12)) for _ in SOURCES]


def reference_bleu(
    hypotheses: list[str], references: list[list[str]], shortest: bool, orders: Sequence[int] = range(4)
) -> float:
    """Papineni et al. 2002, as multi-bleu.perl counts it, with either reference length; of tokens as they are.

    ``orders``: lengths of n-grams less one.
    """
    matches, totals, size, expected = [0] * len(orders), [0] * len(orders), 0, 0
    for number, line in enumerate(hypotheses):
        words, others = line.split(), [reference[number].split() for reference in references]
        size += len(words)
        lengths = [len(other) for other in others]
        expected += min(lengths) if shortest else min(lengths, key=lambda n: (abs(n - len(words)), n))
        for at, order in enumerate(orders):
            found = Counter(tuple(words[i : i + order + 1]) for i in range(len(words) - order))
            most: Counter[tuple[str, ...]] = Counter()
            for other in others:
                most |= Counter(tuple(other[i : i + order + 1]) for i in range(len(other) - order))
            matches[at] += sum((found & most).values())
            totals[at] += sum(found.values())
    penalty = min(1.0, math.exp(1 - expected / size))
    logarithms = [math.log(m / t) for m, t in zip(matches, totals, strict=True)]
    return 100 * penalty * math.exp(sum(logarithms) / len(orders))


@pytest.fixture
def test_set(tmp_path: Path) -> scoring.TestSet:
    reference = write_lines(tmp_path / "test.en", REFERENCES)
    return scoring.TestSet([reference], "en", "none", tokenised=[reference])


def several(test_set: scoring.TestSet, other: Path) -> scoring.TestSet:
    """Return a test set with a further reference, which is its own tokens."""
    return replace(test_set, paths=[*test_set.paths, other], tokenised=[*test_set.tokenised, other])


def by_metric(measured: list[scoring.Measurement]) -> dict[str, scoring.Measurement]:
    return {one.metric: one for one in measured}


@pytest.mark.parametrize("length", ["closest", "shortest"])
def test_several_references(length: str, tmp_path: Path, test_set: scoring.TestSet) -> None:
    second = [" ".join(line.split()[:-2]) + " here" * (len(line) % 3) for line in noisy(REFERENCES, 0.3, 8)]
    hypotheses = noisy([line + " or so" * (len(line) % 2) for line in REFERENCES], 0.2, 9)
    other = write_lines(tmp_path / "test.en.ref1", second)
    both = replace(several(test_set, other), reference_length=length)
    found = by_metric(scoring.translation(write_output(tmp_path / "out", hypotheses), both))
    assert set(found) == {"multi_bleu", "sacrebleu"}
    multi, expected = found["multi_bleu"], reference_bleu(hypotheses, [REFERENCES, second], length == "shortest")
    assert multi.score == pytest.approx(expected) and f"|reflen:{length}" in multi.signature


def test_references_must_go_together(tmp_path: Path, test_set: scoring.TestSet) -> None:
    output = write_output(tmp_path / "out", REFERENCES)
    other = write_lines(tmp_path / "other", REFERENCES)
    with pytest.raises(ScoreError, match=r"test.en: 1 tokenised references, but 2 raw ones"):
        scoring.translation(output, replace(test_set, paths=[*test_set.paths, other]))
    write_lines(other, REFERENCES[1:])
    with pytest.raises(ScoreError, match=r"other: 29 lines, but .*test.en has 30"):
        scoring.translation(output, several(test_set, other))


COMPOUNDS = [
    ("a Rock-and-Roll-Sänger sang", "a Rock ##AT##-##AT## and ##AT##-##AT## Roll ##AT##-##AT## Sänger sang"),
    ("a-b-c", "a ##AT##-##AT## b-c"),  # the b is used up
    ("a-b-c-d", "a ##AT##-##AT## b-c ##AT##-##AT## d"),
    ("a-é-b", "a ##AT##-##AT## é ##AT##-##AT## b"),  # two bytes
    ("a - b -c d- e", "a - b -c d- e"),
    ("a--b 1-2", "a ##AT##-##AT## -b 1 ##AT##-##AT## 2"),
    ("---", "- ##AT##-##AT## -"),
    ("x\u00a0-y", "x\u00a0 ##AT##-##AT## y"),  # to Perl the bytes of a no-break space are no space
]
GERMAN = ["ein Rock-Sänger singt im Park .", "das CDU-Mitglied ist sehr alt heute ."] * 5
TRANSLATED = ["ein Pop-Sänger singt im Park .", "das SPD-Mitglied ist sehr alt heute ."] * 5


def test_compounds_are_split() -> None:
    for line, expected in COMPOUNDS:
        assert bleu.split_compounds(line) == expected, line


def test_compound_bleu_of_german_and_french(tmp_path: Path, test_set: scoring.TestSet) -> None:
    path = write_lines(tmp_path / "test.de", GERMAN)
    german = scoring.TestSet([path], "de", "none", tokenised=[path])
    output = write_output(tmp_path / "out", TRANSLATED)
    found = by_metric(scoring.translation(output, german))
    assert set(found) == {"tokenised_bleu", "compound_bleu", "sacrebleu"}
    apart = [[line.replace("-", " ##AT##-##AT## ") for line in lines] for lines in (TRANSLATED, GERMAN)]
    assert found["compound_bleu"].score == pytest.approx(reference_bleu(apart[0], [apart[1]], False))
    assert found["compound_bleu"].signature.endswith("|compounds:split")
    assert found["compound_bleu"].score > found["tokenised_bleu"].score + 5
    french, english = (by_metric(scoring.translation(output, replace(german, language=name))) for name in ("fr", "en"))
    assert french["compound_bleu"].score == found["compound_bleu"].score
    assert set(english) == {"tokenised_bleu", "sacrebleu"}


def test_dashes_that_the_tokenisation_has_split(tmp_path: Path) -> None:
    """With Moses' -a on both sides BLEU is that of the same text without it."""
    found, raw = [], write_lines(tmp_path / "raw.de", GERMAN)
    for name, dash in (("split", " @-@ "), ("whole", "-")):
        reference, output = ([line.replace("-", dash) for line in lines] for lines in (GERMAN, TRANSLATED))
        test = scoring.TestSet([raw], "de", "none", tokenised=[write_lines(tmp_path / f"{name}.de", reference)])
        found.append(scoring.translation(write_output(tmp_path / name, output), test))
    assert found[0] == found[1]


JAPANESE = ["彼は本を読んでいる。", "2017年にOpen MRI装置を用いた。"] * 4


@pytest.mark.skipif(importlib.util.find_spec("MeCab") is None, reason="MeCab (extra ja) is not installed")
@pytest.mark.parametrize("bpe", ["sentencepiece", "none"])
def test_japanese(bpe: str, tmp_path: Path) -> None:
    pieces = {
        "sentencepiece": ["▁彼は 本を 読んで いる 。", "▁2017 年に Open ▁MR I 装置 を用いた 。"],
        "none": ["彼 は 本 を 読ん で いる 。", "2017 年 に Open MRI 装置 を 用い た 。"],
    }
    test = scoring.TestSet([write_lines(tmp_path / "test.ja", JAPANESE)], "ja", bpe)
    output = write_output(tmp_path / "out", pieces[bpe] * 4)
    assert test.hypotheses(output) == JAPANESE
    found = by_metric(scoring.translation(output, test))["sacrebleu"]
    assert found.score == pytest.approx(100) and "tok:ja-mecab" in found.signature
    # Words count, not whole sentences: one of eight is another.
    other = write_output(tmp_path / "other", [line.replace("本", "新聞") for line in pieces[bpe] * 4])
    assert 50 < by_metric(scoring.translation(other, test))["sacrebleu"].score < 95


def test_japanese_without_mecab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    output, reference = write_output(tmp_path / "out", JAPANESE), write_lines(tmp_path / "test.ja", JAPANESE)
    done = run_score(output, "--reference", reference, "--target", "ja", "--bpe", "none")
    assert_one_line(done, "needs MeCab, which is not installed: pip install -e '.[ja]'")


def test_bleu_by_length(tmp_path: Path, test_set: scoring.TestSet) -> None:
    lines = noisy(REFERENCES, 0.1, 3)
    output = write_output(tmp_path / "out", lines, sources=SOURCES)
    found = by_metric(scoring.translation(output, test_set, by_length=bleu.LENGTHS))
    groups = {"bleu_0_10": (1, 10), "bleu_10_20": (11, 20), "bleu_20_30": (25,), "bleu_30_40": (35,)}
    groups |= {"bleu_40_50": (45, 50), "bleu_50": (51, 80)}
    assert set(found) == {"tokenised_bleu", "sacrebleu", *groups}
    for name, lengths in groups.items():
        chosen = [n for n, source in enumerate(SOURCES) if len(source.split()) in lengths]
        expected = reference_bleu([lines[n] for n in chosen], [[REFERENCES[n] for n in chosen]], False)
        assert found[name].score == pytest.approx(expected), name
        assert found[name].signature.endswith(f"|sentences:{len(chosen)}")


def test_groups_of_chosen_lengths_take_seeds_together(tmp_path: Path, test_set: scoring.TestSet) -> None:
    """The score of a group is that of all outputs of its sentences as one corpus; groups can be any."""
    seeds = [noisy(REFERENCES, 0.1, seed) for seed in (3, 4)]
    outputs = [write_output(tmp_path / f"{n}", lines, sources=SOURCES) for n, lines in enumerate(seeds)]
    chosen = [n for n, source in enumerate(SOURCES) if len(source.split()) > 40]
    expected = reference_bleu(
        [lines[n] for lines in seeds for n in chosen], [[REFERENCES[n] for n in chosen] * 2], False
    )
    done = run_score(*outputs, "--reference", test_set.paths[0], "--bpe", "none", "--by-length", "20,40")
    assert f"BLEU, more than 40 words {expected:.2f}" in done.stdout and "BLEU, 21 to 40 words" in done.stdout
    for wrong in ("20,10", "many", "0,10"):
        done = run_score(outputs[0], "--reference", test_set.paths[0], "--by-length", wrong)
        assert_one_line(done, f"argument --by-length: '{wrong}': give numbers of words in ascending order")


def test_words_of_the_source_are_counted(tmp_path: Path, test_set: scoring.TestSet) -> None:
    """Twelve sub-words of six words are in the first group; a file of sources goes before the output's."""
    pieces = [" ".join(f"{word}@@ z" for word in "abcdef")] * len(REFERENCES)
    output = write_output(tmp_path / "out", REFERENCES, sources=pieces)
    joined = replace(test_set, bpe="subword_nmt")
    assert "bleu_0_10" in by_metric(scoring.translation(output, joined, by_length=bleu.LENGTHS))
    assert "bleu_10_20" in by_metric(scoring.translation(output, test_set, by_length=bleu.LENGTHS))
    sources = write_lines(tmp_path / "test.de", SOURCES)
    assert "bleu_50" in by_metric(scoring.translation(output, replace(joined, source=sources), by_length=bleu.LENGTHS))
    apart = write_output(tmp_path / "apart", REFERENCES)  # each source one word, as SentencePiece leaves Japanese
    done = run_score(apart, "--reference", *test_set.paths, "--by-length")
    assert_one_line(done, "its sources have no words apart: give --source")


@pytest.mark.parametrize("seed", ["12345", "7"])
def test_bootstrap_is_sacrebleus(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Score and p of BLEU from the counts of the sentences are those of sacreBLEU's own test."""
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    references = [" ".join(random.Random(n).choices("abcdefghijkl", k=12)) for n in range(80)]
    counter = bleu.Counter([references], tokenize="none")
    found = set()
    for rate in (0.1, 0.12, 0.15, 0.3):
        lines, before = noisy(references, 0.1, 1), noisy(references, rate, 2)
        metrics = {"BLEU": BLEU(tokenize="none", force=True)}
        own = PairedTest([("b", before), ("s", lines)], metrics, [references], test_type="bs", n_samples=200)
        baseline, system = own()[1]["BLEU"]
        ours, theirs = (counter.counts(each) for each in (lines, before))
        difference, p_value = significance.paired_bootstrap(ours, theirs, counter.bleu, samples=200)
        assert isinstance(system, Result) and isinstance(baseline, Result)
        assert p_value == system.p_value and significance.drawn() == f"bs:1000|seed:{seed}"
        assert difference == pytest.approx(system.score - baseline.score, abs=1e-9)
        found.add(p_value)
    assert len(found) > 2 and min(found) < 0.05 < max(found)
    assert significance.paired_bootstrap(counter.counts(lines), counter.counts(lines), counter.bleu) == (0, 1)


def test_bootstrap_without_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "none")
    draw = np.random.default_rng(1)
    ours, base = draw.random((40, 1)), draw.random((40, 1))
    found = [significance.paired_bootstrap(ours, base, lambda sums: float(sums[0]), samples=500) for _ in range(4)]
    assert significance.drawn() == "bs:1000|seed:none" and len(set(found)) > 1
    for word in ("abc", "-1", ""):
        monkeypatch.setenv("SACREBLEU_SEED", word)
        with pytest.raises(ScoreError, match=f"SACREBLEU_SEED is '{word}': set it to a whole number"):
            significance.drawn()


def test_bleu_by_ngram(tmp_path: Path, test_set: scoring.TestSet) -> None:
    """Each order against loops, with two references; too short outputs pay the brevity penalty; BLEU is their mean."""
    other = write_lines(tmp_path / "test.en.ref1", [" ".join(line.split()[:-2]) for line in REFERENCES])
    both = replace(several(test_set, other), reference_length="shortest")
    references = [REFERENCES, other.read_text().splitlines()]
    lines, before = noisy([line.partition(" ")[2] for line in REFERENCES], 0.1, 3), noisy(REFERENCES, 0.3, 4)
    output, baseline = write_output(tmp_path / "out", lines), write_output(tmp_path / "base", before)
    found = by_metric(scoring.translation(output, both, baseline, by_ngram=True))
    of_orders = [found.pop(f"bleu_ngram_{order}") for order in range(1, 9)]
    assert set(found) == {"multi_bleu", "sacrebleu"}
    for order, measured in enumerate(of_orders):
        score, than = (reference_bleu(each, references, True, [order]) for each in (lines, before))
        assert measured.score == pytest.approx(score)
        assert measured.difference == pytest.approx(score - than)
        assert measured.p_value is not None and 0 < measured.p_value <= 1
        assert measured.signature.endswith(f"|reflen:shortest|order:{order + 1}")
        assert "smooth:none" in measured.signature
    mean = math.exp(sum(math.log(measured.score) for measured in of_orders[:4]) / 4)
    assert mean == pytest.approx(found["multi_bleu"].score)
    assert of_orders[0].p_value is not None and of_orders[0].p_value < 0.05


def test_orders_without_a_match_and_outputs_that_are_too_short() -> None:
    def by_order(lines: list[str], references: list[str]) -> list[float]:
        counter = bleu.Counter([references], tokenize="none")
        sums = counter.counts(lines).sum(0)
        return [counter.bleu_of_order(sums, order) for order in bleu.ORDERS]

    assert by_order(["a b x d"], ["a b c d"]) == pytest.approx([75, 100 / 3, 0, 0, 0, 0, 0, 0])
    assert by_order([""], ["a b"]) == [0] * 8
    assert by_order(REFERENCES, REFERENCES) == [100] * 8
