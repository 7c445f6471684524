"""Output of fairseq and references: what is read, plain or .gz, of fairseq-generate or -interactive."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.measure.generated import ScoreError
from experiments.measure.scoring import TestSet, translation
from support.engine.outputs import assert_one_line, run_score, write_lines, write_output

LINES = ["the old man reads a red book .", "a dog runs through the grass ."] * 20


@pytest.fixture
def test_set(tmp_path: Path) -> TestSet:
    return TestSet([write_lines(tmp_path / "test.en", LINES)], "en")


@pytest.mark.parametrize("packed", [False, True])
def test_a_mark_at_the_start_and_gzip_are_no_text(tmp_path: Path, test_set: TestSet, packed: bool) -> None:
    """One rule for outputs, references, tokenised references and sources, plain or .gz."""
    paths = [write_output(tmp_path / "out.txt", LINES), *test_set.paths, write_lines(tmp_path / "test.de", LINES)]
    marked = [path.with_name(f"marked.{path.name}{'.gz' if packed else ''}") for path in paths]
    for path, new in zip(paths, marked, strict=True):
        data = b"\xef\xbb\xbf" + path.read_bytes()
        new.write_bytes(gzip.compress(data) if packed else data)
    plain, found = (
        translation(output, TestSet([text], "en", tokenised=[text], source=source), by_length=(10,))
        for output, text, source in (paths, marked)
    )
    assert found == plain and plain[0].score == pytest.approx(100) and plain[-1].metric == "bleu_0_10"


@pytest.mark.parametrize("change", [lambda data: data[:-9], lambda data: b"no gzip"])
def test_damaged_gzip_is_named(tmp_path: Path, test_set: TestSet, change: Callable[[bytes], bytes]) -> None:
    (tmp_path / "ref.gz").write_bytes(change(gzip.compress(b"a line .\n" * 40)))
    done = run_score(write_output(tmp_path / "out.txt", LINES), "--reference", tmp_path / "ref.gz")
    assert_one_line(done, "ref.gz: a damaged or cut-off gzip file")


def test_output_of_interactive_is_that_of_generate(tmp_path: Path, test_set: TestSet) -> None:
    output = write_output(tmp_path / "out.txt", LINES)
    typed = write_output(tmp_path / "typed.txt", LINES, interactive=True)
    assert translation(typed, test_set) == translation(output, test_set)
    lines = typed.read_text().splitlines()
    write_lines(typed, lines[:-1])
    with pytest.raises(ScoreError, match="the final line 'P-39' is missing: truncated; run fairseq-interactive again"):
        translation(typed, test_set)
    write_lines(typed, lines[:-5])
    with pytest.raises(ScoreError, match=r"1 of 40 sentences are missing \(39\): .*; run fairseq-interactive again"):
        translation(typed, test_set)


@pytest.mark.parametrize(
    ("bpe", "line", "message"),
    [
        ("sentencepiece", "the old man", "out: has no word marks of SentencePiece: generate it without --remove-bpe"),
        ("sentencepiece", "the o@@ ld", "of subword_nmt: give --bpe subword_nmt"),
        ("subword_nmt", "▁the ▁old", "out: 40 of 40 sentences are in subwords of sentencepiece: give --bpe"),
        ("none", "the o@@", "of subword_nmt: give --bpe subword_nmt"),
        ("subword_nmt", "the o ##lder", "of wordpiece: give --bpe wordpiece"),
    ],
)
def test_output_in_other_subwords(bpe: str, line: str, message: str, tmp_path: Path, test_set: TestSet) -> None:
    """Text may have marks that stand alone, or a few others; and a model may write no word marks."""
    test = replace(test_set, bpe=bpe)
    with pytest.raises(ScoreError, match=message):
        translation(write_output(tmp_path / "out", [line] * 40), test)
    text = [line, *["@@ -1 +1 @@ ##AT##-##AT## ##th #"] * 39]
    assert len(test.hypotheses(output := write_output(tmp_path / "out", text, sources=["▁ein"] * 40))) == 40
    write_lines(
        output, output.read_text().replace("▁ein", "ein").replace("D-0\t-0.5\t", "D-0\t-0.5\tjoined").split("\n")
    )
    assert len(test.hypotheses(output)) == 40


ALL = list(range(len(LINES)))


@pytest.mark.parametrize(
    ("lines", "order", "last", "message"),
    [
        (LINES, [n for n in ALL if n not in (3, 17)], True, r"2 of 40 sentences are missing \(3, 17\): truncated"),
        (LINES, ALL, False, "the final line 'Generate .* is missing: truncated"),
        (LINES, [*ALL, 7], True, r"sentence 7 comes twice"),
        ([*LINES, "one more ."], None, True, "sentence 40, but the reference has only 40 lines"),
        ([*LINES[:5], "a\tb", *LINES[6:]], None, True, ":28: sentence 5: .* cut off"),
    ],
)
def test_output_that_is_not_whole(
    lines: list[str], order: list[int], last: bool, message: str, tmp_path: Path, test_set: TestSet
) -> None:
    output = write_output(tmp_path / "out.txt", lines, order, last)
    with pytest.raises(ScoreError, match=r"out\.txt.*" + message):
        translation(output, test_set)
