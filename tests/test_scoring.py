"""scripts/score.py: equal to sacreBLEU, in the data set's order, and no score for a broken output."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

SCRIPTS = Path(__file__).parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))

import score  # noqa: E402

LAST = "Generate test with beam=5: BLEU4 = 10.00, 1/1/1/1 (BP=1.000, ratio=1.000, syslen=1, reflen=1)"
REFERENCES = [
    "The old man isn't reading a book, is he?",
    "A dog runs through the grass.",
    'She said: "It costs $5.50 & more."',
    "Two children play with a red ball in the park.",
    "People are waiting at the bus stop near the station.",
] * 8
TOKENS = [
    "the old man is n&apos;t reading a book , is he ?",
    "A dog ru@@ ns through gr@@ ass .",
    'She says : " It costs $ 5.50 &amp; more . "',
    "Two children are play@@ ing with a ball in the park .",
    "People wait at the bus stop .",
] * 8
DETOKENISED = [
    "the old man is n't reading a book, is he?",
    "A dog runs through grass.",
    'She says: "It costs $5.50 & more."',
    "Two children are playing with a ball in the park.",
    "People wait at the bus stop.",
] * 8


def write_output(path: Path, tokens: list[str], order: list[int] | None = None, last: bool = True) -> Path:
    """A file as fairseq-generate writes it."""
    lines = []
    for index in order if order is not None else range(len(tokens)):
        lines += [f"S-{index}\tquelle", f"T-{index}\tziel", f"H-{index}\t-0.5\t{tokens[index]}"]
        lines += [f"D-{index}\t-0.5\t{tokens[index]}", f"P-{index}\t-0.1 -0.2"]
    path.write_text("\n".join([*lines, *([LAST] if last else [])]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def test_set(tmp_path: Path) -> score.TestSet:
    reference = tmp_path / "test.en"
    reference.write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    return score.TestSet(reference, "en")


def test_bleu_is_sacrebleu_on_detokenised_text(tmp_path: Path, test_set: score.TestSet) -> None:
    order = list(range(len(TOKENS)))
    random.Random(1).shuffle(order)
    output = write_output(tmp_path / "out.txt", TOKENS, order)
    assert test_set.hypotheses(output) == DETOKENISED
    report = score.score_output(output, test_set)
    expected = sacrebleu.corpus_bleu(DETOKENISED, [REFERENCES])
    assert report.bleu.score == pytest.approx(expected.score, abs=1e-9)
    assert 20 < report.bleu.score < 90
    assert report.bleu.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert report.sentences == len(REFERENCES)


def test_lowercase_ignores_case(tmp_path: Path, test_set: score.TestSet) -> None:
    output = write_output(tmp_path / "out.txt", [line.upper() for line in REFERENCES])
    lowercase = score.TestSet(test_set.reference, "en", "none", lowercase=True)
    assert score.score_output(output, test_set).bleu.score < 20
    report = score.score_output(output, lowercase)
    assert report.bleu.score > 90 and "case:lc" in report.bleu.signature


def test_tokenised_bleu_takes_the_tokens_as_they_are(tmp_path: Path, test_set: score.TestSet) -> None:
    tokens = [score.remove_bpe(line) for line in TOKENS]
    reference = tmp_path / "tok.en"
    reference.write_text("\n".join(tokens[1:] + tokens[:1]) + "\n", encoding="utf-8")
    output = write_output(tmp_path / "out.txt", TOKENS)
    report = score.score_output(output, score.TestSet(test_set.reference, "en", tokenised=reference))
    expected = sacrebleu.BLEU(tokenize="none", force=True).corpus_score(tokens, [tokens[1:] + tokens[:1]])
    assert report.tokenised is not None
    assert report.tokenised.score == pytest.approx(expected.score, abs=1e-9)
    assert "tok:none" in report.tokenised.signature


def test_several_references() -> None:
    second = [line.replace("old", "elderly") for line in REFERENCES]
    expected = sacrebleu.corpus_bleu(DETOKENISED, [REFERENCES, second])
    assert score.sacre_bleu(DETOKENISED, [REFERENCES, second]).score == pytest.approx(expected.score, abs=1e-9)


@pytest.mark.parametrize(
    ("bpe", "line", "expected"),
    [
        ("subword_nmt", "a ru@@ nn@@ ing dog", "a running dog"),
        ("subword_nmt", "a mail to a@@ b@@", "a mail to ab"),
        ("sentencepiece", "\u2581a \u2581run ning \u2581dog", "a running dog"),
        ("none", "a ru@@ nning dog", "a ru@@ nning dog"),
    ],
)
def test_remove_bpe(bpe: str, line: str, expected: str) -> None:
    assert score.remove_bpe(line, bpe) == expected


def test_missing_sentences_are_named(tmp_path: Path, test_set: score.TestSet) -> None:
    order = [index for index in range(len(TOKENS)) if index not in (3, 17)]
    output = write_output(tmp_path / "out.txt", TOKENS, order)
    with pytest.raises(score.ScoreError, match=r"out\.txt: 2 of 40 sentences are missing \(3, 17\): truncated"):
        score.score_output(output, test_set)


def test_output_without_its_last_line_is_truncated(tmp_path: Path, test_set: score.TestSet) -> None:
    output = write_output(tmp_path / "out.txt", TOKENS, last=False)
    with pytest.raises(score.ScoreError, match=r"the final line 'Generate .* is missing: truncated"):
        score.score_output(output, test_set)


def test_line_that_is_cut_off(tmp_path: Path, test_set: score.TestSet) -> None:
    output = write_output(tmp_path / "out.txt", TOKENS)
    text = output.read_text(encoding="utf-8")
    output.write_text(text[: text.index("H-5\t") + len("H-5\t-0.")] + "\n", encoding="utf-8")
    with pytest.raises(score.ScoreError, match=r"out\.txt:28: sentence 5: .* cut off"):
        score.score_output(output, test_set)


def test_sentence_that_comes_twice(tmp_path: Path, test_set: score.TestSet) -> None:
    output = write_output(tmp_path / "out.txt", TOKENS, [*range(len(TOKENS)), 7])
    with pytest.raises(score.ScoreError, match=r"out\.txt:\d+: sentence 7 comes twice"):
        score.score_output(output, test_set)


def test_output_of_another_test_set(tmp_path: Path, test_set: score.TestSet) -> None:
    output = write_output(tmp_path / "out.txt", [*TOKENS, "one more ."])
    with pytest.raises(score.ScoreError, match="sentence 40, but the reference has only 40 lines"):
        score.score_output(output, test_set)


def test_paired_bootstrap_tells_systems_apart() -> None:
    generator = random.Random(3)
    references = [" ".join(generator.choices("abcdefghijkl", k=12)) for _ in range(200)]

    def noisy(rate: float, seed: int) -> list[str]:
        noise = random.Random(seed)
        return [" ".join(w if noise.random() > rate else "x" for w in line.split()) for line in references]

    better, worse, alike = noisy(0.1, 1), noisy(0.3, 2), noisy(0.1, 3)
    clear = score.paired_bootstrap(better, worse, [references], samples=300)
    assert clear.p_value < 0.05 and clear.difference > 5
    assert "bs:300" in clear.signature and "seed:" in clear.signature
    same = score.paired_bootstrap(better, alike, [references], samples=300)
    assert same.p_value > 0.05
    assert score.paired_bootstrap(better, better, [references], samples=300).difference == 0


def run_score(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "score.py"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True)


def test_command(tmp_path: Path, test_set: score.TestSet) -> None:
    output = write_output(tmp_path / "out.txt", TOKENS)
    baseline = write_output(tmp_path / "base.txt", [line.replace("a", "the") for line in TOKENS])
    done = run_score(output, "--reference", test_set.reference, "--baseline", baseline, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["significance"]["difference"] == pytest.approx(report["bleu"]["score"] - report["baseline"]["score"])
    assert "p = " in run_score(output, "--reference", test_set.reference, "--baseline", baseline).stdout


def test_command_fails_in_one_line(tmp_path: Path, test_set: score.TestSet) -> None:
    output = write_output(tmp_path / "out.txt", TOKENS, [0])
    for failed in (
        run_score(output, "--reference", test_set.reference),
        run_score(tmp_path / "none.txt", "--reference", test_set.reference),
    ):
        assert failed.returncode == 2 and failed.stdout == ""
        assert failed.stderr.startswith("score: ") and failed.stderr.count("\n") == 1
