"""scripts/score.py: equal to sacreBLEU, in the data set's order, and no score for a broken output."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from experiments.data.prepared import Prepared
from experiments.measure import command as score
from experiments.measure.bleu import LENGTHS, Counter
from experiments.measure.generated import ScoreError, detokenise, remove_bpe
from experiments.measure.scoring import TestSet, chrf, keep_counts, pooled, translation
from experiments.measure.significance import Measurement, paired_bootstrap
from support.engine.outputs import assert_one_line, noisy, run_score, write_lines, write_output

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


def bleu_of(output: Path, test: TestSet, metric: str = "sacrebleu", baseline: Path | None = None) -> Measurement:
    (found,) = (each for each in translation(output, test, baseline) if each.metric == metric)
    return found


@pytest.fixture
def test_set(tmp_path: Path) -> TestSet:
    return TestSet([write_lines(tmp_path / "test.en", REFERENCES)], "en")


def test_chrf_is_sacrebleus(tmp_path: Path, test_set: TestSet) -> None:
    """On the text that BLEU counts, with its signature and the test against a baseline; seeds are taken together."""
    worse = noisy(TOKENS, 0.3, 1)
    outputs = [write_output(tmp_path / "a.txt", TOKENS), write_output(tmp_path / "b.txt", worse)]
    texts = [DETOKENISED, detokenise(list(map(remove_bpe, worse)), "en")]
    done = run_score(outputs[0], "--reference", test_set.paths[0], "--baseline", outputs[1])
    expected = [sacrebleu.corpus_chrf(text, [REFERENCES]).score for text in texts]
    assert f"chrF {expected[0]:.2f}  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:" in done.stdout
    after = done.stdout[done.stdout.index("chrF") :].splitlines()[1]
    assert f"against the baseline: {expected[0] - expected[1]:+.2f}, p = 0.00" in after
    lower = replace(test_set, lowercase=True, paths=[*test_set.paths, write_lines(tmp_path / "other", DETOKENISED)])
    (found,) = chrf(outputs, lower)
    both = sacrebleu.CHRF(lowercase=True).corpus_score(sum(texts, []), [REFERENCES * 2, DETOKENISED * 2])
    assert found.score == pytest.approx(both.score) and "nrefs:2|case:lc" in found.signature
    keep_counts(outputs[1], test_set, tmp_path / "kept.npz")
    assert chrf([tmp_path / "kept.npz"], test_set) == []
    assert chrf(outputs[:1], test_set, [tmp_path / "kept.npz"])[0].difference is None


def test_pieces_of_raw_text_are_text(tmp_path: Path) -> None:
    """A perfect output has 100, with text that detokenisation would change; in tokens it is detokenised as usual."""
    lines = ["he didn 't pay 20 $ per kg .", "rock 'n' roll & more"] * 4
    reference = write_lines(tmp_path / "test.en", lines)
    pieces = [" ".join("\u2581" + word for word in line.split()) for line in lines]
    output = write_output(tmp_path / "out.txt", pieces)
    of_text = TestSet([reference], "en", "sentencepiece")
    assert of_text.hypotheses(output) == lines
    assert bleu_of(output, of_text).score == pytest.approx(100)
    assert replace(of_text, tokenised=[reference]).hypotheses(output) == lines
    of_tokens = replace(of_text, tokenised=[write_lines(tmp_path / "tok.en", [line.upper() for line in lines])])
    assert of_tokens.hypotheses(output) == detokenise(lines, "en") != lines


@pytest.mark.parametrize(("language", "lowercase", "several"), [("en", True, False), ("de", False, True)])
def test_counts_stand_in_for_an_output(
    language: str, lowercase: bool, several: bool, tmp_path: Path, test_set: TestSet
) -> None:
    """A system or a baseline of which only the counts are left has the same scores, differences and p."""
    other = write_lines(tmp_path / "other.en", [line.replace("red", "blue-green") for line in REFERENCES])
    both = [*test_set.paths, *([other] if several else [])]
    source = write_lines(tmp_path / "test.de", TOKENS)
    test = replace(test_set, language=language, lowercase=lowercase, paths=both, tokenised=both, source=source)
    paths = [write_output(tmp_path / f"{name}.txt", [line.replace("a", name) for line in TOKENS]) for name in "ao"]
    kept = [tmp_path / "kept" / f"{path.stem}.npz" for path in paths]
    for path, file in zip(paths, kept, strict=True):
        keep_counts(path, test, file)
    expected = translation(paths[0], test, paths[1], by_ngram=True, by_length=LENGTHS)
    first = "multi_bleu" if several else "tokenised_bleu"
    metrics = [first, *(["compound_bleu"] if language == "de" else []), "sacrebleu", "bleu_0_10"]
    assert [measured.metric for measured in expected][: len(metrics)] == metrics
    assert expected[0].p_value is not None and expected[0].p_value < 0.05
    for system, baseline in ((paths[0], kept[1]), (kept[0], paths[1]), (kept[0], kept[1])):
        assert translation(system, test, baseline, by_ngram=True, by_length=LENGTHS) == expected
    assert pooled(kept, test, []) == pooled(paths, test, [])


def test_counts_of_other_rules_or_references(tmp_path: Path, test_set: TestSet) -> None:
    output, kept = write_output(tmp_path / "out.txt", TOKENS), tmp_path / "kept.npz"
    two = replace(test_set, paths=[*test_set.paths, *test_set.paths])
    changed = write_lines(tmp_path / "other.en", [line.replace("red", "old") for line in REFERENCES])
    longer = write_lines(tmp_path / "longer.en", [*REFERENCES, "one more"])
    for counted, wanted in (
        (test_set, replace(test_set, lowercase=True)),
        (test_set, TestSet([longer], "en")),
        (two, replace(two, reference_length="shortest")),
        (two, replace(two, paths=[*test_set.paths, changed])),
        (test_set, replace(test_set, bpe="sentencepiece")),  # of detokenised text, and of pieces
    ):
        keep_counts(output, counted, kept)
        assert translation(kept, counted) == translation(output, counted)
        with pytest.raises(ScoreError, match=r"kept\.npz: sacrebleu is counted by nrefs:.*, and here by nrefs:"):
            translation(kept, wanted)
    keep_counts(output, test_set, kept)
    with pytest.raises(ScoreError, match=r"kept\.npz: has no counts of tokenised_bleu"):
        translation(kept, replace(test_set, tokenised=test_set.paths))
    with pytest.raises(ScoreError, match=r"kept\.npz: counts have no sources: give --source"):
        translation(kept, test_set, by_length=LENGTHS)


def test_counts_that_are_damaged(tmp_path: Path, test_set: TestSet) -> None:
    """Whatever byte is another one, the file is refused in one line, or has all counts."""
    output, kept = write_output(tmp_path / "out.txt", TOKENS), tmp_path / "kept.npz"
    keep_counts(output, test_set, kept)
    data, expected = kept.read_bytes(), translation(kept, test_set)
    flipped = [data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :] for at in range(0, len(data), 17)]
    refused = []
    for broken in (*flipped, b"", data[:100], data[:-30], b"no archive"):
        kept.write_bytes(broken)
        try:
            assert translation(kept, test_set) == expected
        except ScoreError as error:
            refused.append(str(error))
    assert len(refused) > len(flipped) / 2
    assert all(said.startswith(f"{kept}: ") and "\n" not in said for said in refused)
    done = run_score(output, "--reference", test_set.paths[0], "--baseline", tmp_path / "none.npz")
    assert_one_line(done, "none.npz: cannot be read")


def test_bleu_is_sacrebleu_on_detokenised_text(tmp_path: Path, test_set: TestSet) -> None:
    """In whatever order the output has its sentences; the command says it as text and as JSON."""
    order = random.Random(1).sample(range(len(TOKENS)), len(TOKENS))
    output = write_output(tmp_path / "out.txt", TOKENS, order)
    baseline = write_output(tmp_path / "base.txt", [line.replace("a", "the") for line in TOKENS])
    assert test_set.hypotheses(output) == DETOKENISED
    words = (output, "--reference", test_set.paths[0], "--baseline", baseline)
    report = json.loads(run_score(*words, "--json").stdout)
    found = bleu_of(output, test_set, baseline=baseline)
    assert report["output"] == [str(output)] and report["measurements"][0] == asdict(found)
    expected = sacrebleu.corpus_bleu(DETOKENISED, [REFERENCES]).score
    assert found.score == pytest.approx(expected, abs=1e-9) and 20 < expected < 90
    assert found.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    told = run_score(*words).stdout
    assert f"BLEU {found.score:.2f}  {found.signature}" in told
    assert f"{found.difference:+.2f}, p = {found.p_value:.4f} by paired bootstrap (bs:1000|seed:12345)" in told


@pytest.mark.parametrize("target", ["ZH", "zh-CN", "zho_Hans"])
def test_a_language_has_its_tokeniser_however_it_is_spelt(target: str, tmp_path: Path, test_set: TestSet) -> None:
    output = write_output(tmp_path / "out.txt", TOKENS)
    assert "|tok:zh|" in run_score(output, "--reference", test_set.paths[0], "--target", target).stdout
    assert TestSet.of(Prepared(tmp_path, "en", target)).language == "zh"


def test_several_seeds_are_one_test(tmp_path: Path) -> None:
    """The score is that of all outputs in a row; a sentence is resampled with all its outputs."""
    reference = write_lines(tmp_path / "test.en", REFERENCES)
    test = TestSet([reference], "en", "none")
    ours, theirs = (
        [write_output(tmp_path / f"{rate}.{seed}", noisy(REFERENCES, rate, seed)) for seed in seeds]
        for rate, seeds in ((0.1, (1, 2, 3)), (0.12, (4, 5, 6)))
    )
    (found,) = pooled(ours, test, theirs)
    rows = [sum((test.hypotheses(path) for path in of), []) for of in (ours, theirs)]
    as_one = [sacrebleu.corpus_bleu(row, [REFERENCES * 3]).score for row in rows]
    assert found.score == pytest.approx(as_one[0])
    assert found.difference == pytest.approx(as_one[0] - as_one[1]) and found.p_value is not None
    (again,) = pooled(ours * 4, test, theirs * 4)
    assert again.p_value == found.p_value > 0.01, "copies of outputs are no evidence"
    counter = Counter([REFERENCES * 12])
    system, baseline = (counter.counts(row * 4) for row in rows)
    _, many = paired_bootstrap(system, baseline, counter.bleu)
    assert many < found.p_value / 10, "which they are as sentences of their own"
    assert pooled(ours, test, [])[0].p_value is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["out"], "--metric bleu needs --reference"),
        (["out", "--metric", "accuracy", "--lowercase"], "--lowercase changes nothing with --metric accuracy"),
        (["out", "--metric", "lead3", "--reference", "r", "--source", "s"], "OUTPUT, the file to score changes"),
        (["out", "--metric", "rouge", "--reference", "r", "--reference", "s"], "--metric rouge takes one --reference"),
        (["out", "--reference", "r", "--source", "s"], "--source changes nothing without --by-length"),
        (["a", "b", "--reference", "r", "--metric", "rouge"], "--metric rouge takes one output"),
        (["a", "--reference", "r", "--baseline", "b", "--baseline", "c"], "several --baseline need several outputs"),
        (["a", "b", "a", "--reference", "r"], "a: is given twice"),
        (["a", "--reference", "r", "--target", "klingon"], "--target klingon: give the code of two letters"),
    ],
)
def test_arguments_that_do_not_go_together(args: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    assert score.main(args) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith(f"score: {message}") and told.err.count("\n") == 1


COUNTED = "x | Evaluated 1,234 tokens in 1.0s"


def test_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Eight of ten right; the baseline six, of which one alone: three against one of McNemar's four."""
    right, base = [1] * 8 + [0] * 2, [1] * 5 + [0] * 3 + [1, 0]
    output = write_lines(tmp_path / "ours", [f"1\t{got}" for got in right])
    baseline = write_lines(tmp_path / "base", [f"1\t{got}" for got in base])
    assert score.main([str(output), "--metric", "accuracy", "--baseline", str(baseline)]) == 0
    told = capsys.readouterr().out
    assert "accuracy (%) 80.00 (49.02 to 94.33)  sentences:10|interval:wilson|test:mcnemar" in told
    assert "+20.00, p = 0.6250 by McNemar's test" in told, "0 or 1 of 4, on either side"
    for labels, message in (("1", "other: 1 lines, but"), ("1" * 9 + "0", "other:10: another label than in")):
        other = write_lines(tmp_path / "other", [f"{label}\t1" for label in labels])
        assert score.main([str(output), "--metric", "accuracy", "--baseline", str(other)]) == 2
        assert message in capsys.readouterr().err


def test_perplexity(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    log = write_lines(tmp_path / "log", [COUNTED, "x | Loss (base 2): 5.5000, Perplexity: 45.25"])
    base = write_lines(tmp_path / "base.json", ['{"tokens": 1234, "loss": 6.0}'])
    assert score.main([str(log), "--metric", "perplexity", "--baseline", str(base), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["measurements"]
    assert found["signature"] == "tokens:1234|loss:5.5000" and found["score"] == pytest.approx(2**5.5)
    assert found["difference"] == pytest.approx(2**5.5 - 64) and found["p_value"] is None
    write_lines(base, ['{"tokens": 999, "loss": 6.0}'])
    assert score.main([str(log), "--metric", "perplexity", "--baseline", str(base)]) == 2
    assert "base.json: 999 tokens, but" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("metric", "text", "message"),
    [
        ("accuracy", "0\t0\n1 0\n", "scored:2: not label, tab, prediction"),
        ("accuracy", "", "scored: is empty"),
        ("accuracy", None, "scored: cannot be read"),
        ("perplexity", "{}\n", "scored: not JSON with tokens and loss"),
        ("perplexity", '{"tokens": Infinity, "loss": 1}\n', "scored: not JSON with tokens and loss"),
        ("perplexity", '{"tokens": 9, "loss": 1024}\n', "scored: the loss is 1024.0: the training has diverged"),
        ("perplexity", COUNTED, "scored: fairseq-eval-lm has not logged a perplexity"),
        (
            "perplexity",
            f"{COUNTED}\nx | Loss (base 2): nan, Perplexity: nan\n",
            "scored: the loss is nan: the training",
        ),
    ],
)
def test_broken_predictions_and_logs(metric: str, text: str | None, message: str, tmp_path: Path, capsys: Any) -> None:
    if text is not None:
        (tmp_path / "scored").write_text(text, "utf-8")
    assert score.main([str(tmp_path / "scored"), "--metric", metric]) == 2
    assert message in capsys.readouterr().err
