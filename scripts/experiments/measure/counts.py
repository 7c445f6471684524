"""Files with what BLEU counts in each sentence of an output: a system can be tested against them without the output.

A file holds for each metric an array of shape (sentences, counts), as ``bleu.Counter`` makes it, and the counter's
identity. It holds no text.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments.measure.bleu import Counter
from experiments.measure.generated import ScoreError
from fairseq_localattn.files import replaced

SUFFIX = ".npz"
IDENTITY = ".identity"  # METRIC.identity in a file: Counter.identity
DAMAGED = (ValueError, TypeError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error)


def is_counts(path: str | Path) -> bool:
    """Return whether a path names a file of counts."""
    return Path(path).suffix == SUFFIX


def save_counts(path: Path, counts: Mapping[str, np.ndarray], counters: Mapping[str, Counter]) -> None:
    """Write the counts of each metric. Raises OSError."""
    arrays = {name: array.astype(np.min_scalar_type(array.max(initial=0))) for name, array in counts.items()}
    arrays |= {f"{name}{IDENTITY}": np.array(counters[name].identity) for name in counts}
    with replaced(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_counts(path: str | Path, counters: Mapping[str, Counter]) -> dict[str, np.ndarray]:
    """Return the counts of all metrics of ``counters``.

    Raises ScoreError where the file is damaged, lacks a metric, or was counted by other rules or references.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: np.asarray(file[name], dtype=np.int64) for name in counters if name in file.files}
            identities = {name: str(file[f"{name}{IDENTITY}"]) for name in found}
    except OSError as error:
        raise ScoreError(f"{path}: cannot be read: {error.strerror or error}") from None
    except DAMAGED as error:
        raise ScoreError(f"{path}: no file of counts, or a damaged one: {' '.join(str(error).split())}") from None
    for name, counter in counters.items():
        if name not in found:
            raise ScoreError(f"{path}: has no counts of {name}")
        if identities[name] != counter.identity or len(found[name]) != counter.sentences:
            raise ScoreError(f"{path}: {name} is counted by {identities[name]}, and here by {counter.identity}")
    return found
