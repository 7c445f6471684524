"""Files with what BLEU counts in each sentence of an output: a system can be tested against them without the output.

A file holds for each metric an array of shape (sentences, counts), as ``bleu.Counter`` makes it, and the counter's
identity. It holds no text.

The files of runs, ``ARCHITECTURE.SETTINGS.seedN.SUBSET.npz``, are members of ``ARCHITECTURE.zip`` in their folder, and
are named as if they stood beside it.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments.measure.bleu import Counter
from experiments.measure.generated import ScoreError
from fairseq_localattn.files import locked, replaced

SUFFIX = ".npz"
IDENTITY = ".identity"  # METRIC.identity in a file: Counter.identity
OF_RUN = re.compile(r"(\w+)\.\w{8}\.seed\d+\.\w+\.npz")
DAMAGED = (ValueError, TypeError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error)


def is_counts(path: str | Path) -> bool:
    """Return whether a path names a file of counts."""
    return Path(path).suffix == SUFFIX


def archive_of(path: str | Path) -> Path | None:
    """Return the archive that has a run's file of counts; None for a file that stands alone."""
    found = OF_RUN.fullmatch(Path(path).name)
    return found and Path(path).with_name(f"{found[1]}.zip")


def has_counts(path: Path) -> bool:
    """Return whether a file of counts is there. Of a damaged archive that is true: reading it says what is wrong."""
    archive = archive_of(path)
    try:
        return path.exists() if archive is None else path.name in _members(archive)
    except (ScoreError, OSError):
        return True


def save_counts(path: Path, counts: Mapping[str, np.ndarray], counters: Mapping[str, Counter]) -> None:
    """Write the counts of each metric. Raises OSError, and ScoreError for a damaged archive, which stays as it is."""
    arrays = {name: array.astype(np.min_scalar_type(array.max(initial=0))) for name, array in counts.items()}
    arrays |= {f"{name}{IDENTITY}": np.array(counters[name].identity) for name in counts}
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    archive = archive_of(path)
    if archive is None:
        with replaced(path) as part:
            part.write_bytes(stream.getvalue())
        return
    with locked(archive):  # other tables keep counts of the same architecture
        members = _members(archive) | {path.name: stream.getvalue()}
        with replaced(archive) as part, zipfile.ZipFile(part, "w") as file:
            for name in sorted(members):
                file.writestr(zipfile.ZipInfo(name), members[name])  # no date: the same counts are the same bytes


def _members(archive: Path) -> dict[str, bytes]:
    """Return name → content of an archive's files; none where it is not there. Raises ScoreError, OSError."""
    try:
        with zipfile.ZipFile(archive) as file:
            found = {name: file.read(name) for name in file.namelist()}
        if not all(map(OF_RUN.fullmatch, found)):  # a cut-off archive may look like the last member of itself
            raise zipfile.BadZipFile("it has other files")
        return found
    except FileNotFoundError:
        return {}
    except DAMAGED as error:
        said = " ".join(str(error).split())
        raise ScoreError(f"{archive}: no archive of counts, or a damaged one: {said}; restore it") from None


def _open(path: str | Path) -> io.BytesIO | Path:
    """Return what numpy loads: a file, or the member of an archive."""
    archive = archive_of(path)
    content = None if archive is None else _members(archive).get(Path(path).name)
    return Path(path) if content is None else io.BytesIO(content)


def read_counts(path: str | Path, counters: Mapping[str, Counter]) -> dict[str, np.ndarray]:
    """Return the counts of all metrics of ``counters``.

    Raises ScoreError where the file is damaged, lacks a metric, or was counted by other rules or references.
    """
    try:
        with np.load(_open(path), allow_pickle=False) as file:
            found = {name: np.asarray(file[name], dtype=np.int64) for name in counters if name in file.files}
            identities = {name: str(file[f"{name}{IDENTITY}"]) for name in found}
    except ScoreError:
        raise
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
