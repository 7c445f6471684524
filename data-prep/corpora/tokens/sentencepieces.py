"""SentencePiece models of large files, and text in their pieces, in several processes."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from corpora.errors import DataError
from corpora.text.linewise import change_file

SAMPLE = 5_000_000  # lines, of a longer text
COVERAGE = 0.9995  # share of the characters that a model must know, as SentencePiece's documentation advises
_THREADS = 4  # fixed, as the pieces may depend on it


def learn(paths: Sequence[Path], model: Path, pieces: int) -> None:
    """Train a unigram model of all texts together, a file that appears when it is complete; raises DataError.

    pieces: size of its vocabulary.
    """
    coverage = 1.0 if [path.suffix for path in paths] == [".en"] else COVERAGE
    for path in paths:
        if not path.is_file() or not path.stat().st_size:
            raise DataError(f"{path}: no such text, or empty")
    prefix = model.with_name(f"{model.name}.part{os.getpid()}")
    written = [prefix.with_name(prefix.name + ending) for ending in (".model", ".vocab")]
    sentencepiece.set_random_generator_seed(1)
    try:
        sentencepiece.SentencePieceTrainer.train(
            input=[str(path) for path in paths], model_prefix=str(prefix), vocab_size=pieces, model_type="unigram",
            character_coverage=coverage, input_sentence_size=SAMPLE, shuffle_input_sentence=True,
            num_threads=_THREADS, minloglevel=2,
        )  # fmt: skip
        os.replace(written[0], model)
    except (RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{paths[0]}: no model of {pieces:,} pieces can be trained on it: {reason}") from None
    finally:
        for path in written:
            path.unlink(missing_ok=True)


class Encoder:
    """Splits a line into the pieces of a model."""

    def __init__(self, model: Path) -> None:
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(model))

    def __call__(self, line: str) -> str:
        return " ".join(self.model.encode(line, out_type=str))


def apply(model: Path, source: Path, target: Path, workers: int) -> None:
    """Write a text in the pieces of a model, and continue a stopped run; raises DataError."""
    change_file(source, target, functools.partial(Encoder, model), workers, allow_empty=True, resume=True)
