"""Files with what BLEU counts in each sentence of an output: a system can be tested against them without the output.

A file holds one array a metric, of shape (sentences, counts), as ``bleu.Counter`` counts them; it holds no text.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments.measure.bleu import Counter
from experiments.measure.generated import ScoreError

SUFFIX = ".npz"


def is_counts(path: str | Path) -> bool:
    """Return whether a path names a file of counts."""
    return Path(path).suffix == SUFFIX


def save_counts(path: Path, counts: Mapping[str, np.ndarray]) -> None:
    """Write counts, metric by metric. Raises OSError."""
    from fairseq_localattn.files import replaced  # here, as the import takes seconds

    path.parent.mkdir(parents=True, exist_ok=True)
    smallest = {name: array.astype(np.min_scalar_type(array.max(initial=0))) for name, array in counts.items()}
    with replaced(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **smallest)  # type: ignore[arg-type]


def read_counts(path: str | Path, counters: Mapping[str, Counter]) -> dict[str, np.ndarray]:
    """Return the counts of each of the metrics that the file has.

    Raises ScoreError where the file is damaged, or its references are not those of the counters: other in number or,
    where there is one, in length.
    """
    found = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for name in counters:
                if name in file.files:
                    found[name] = file[name].astype(np.int64)
    except OSError as error:
        raise ScoreError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ScoreError(f"{path}: no file of counts, or a damaged one: {error}") from None
    for name, counts in found.items():
        if not counters[name].counted(counts):
            raise ScoreError(f"{path}: counted {name} against other references: score its output again")
    return found
