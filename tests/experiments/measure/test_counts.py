"""Archives of counts: one an architecture, written by several tables at once, and never damaged further."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from experiments.measure.bleu import Counter
from experiments.measure.counts import has_counts, read_counts, save_counts
from experiments.measure.generated import ScoreError

REFERENCE = ["the cat sat on the mat .", "a dog ran home ."]
COUNTERS = {"sacrebleu": Counter([REFERENCE])}


def name(seed: int) -> str:
    return f"transformer_tiny.0123abcd.seed{seed}.test.npz"


def save(path: Path, text: str = "a dog ran home .") -> None:
    save_counts(path, {"sacrebleu": COUNTERS["sacrebleu"].counts([REFERENCE[0], text])}, COUNTERS)


def test_writers_side_by_side_lose_nothing(tmp_path: Path) -> None:
    """Each file is read by its own path, a later one replaces the former, and only the archive is there."""
    folder = tmp_path / "counts"
    threads = [threading.Thread(target=save, args=(folder / name(seed),)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {path.name for path in folder.iterdir()} == {"transformer_tiny.zip", ".lock"}
    assert all(has_counts(folder / name(seed)) for seed in range(12)) and not has_counts(folder / name(12))
    before = (folder / "transformer_tiny.zip").read_bytes()
    save(folder / name(3))
    assert (folder / "transformer_tiny.zip").read_bytes() == before
    save(folder / name(3), "a dog")
    whole, changed = (read_counts(folder / name(seed), COUNTERS)["sacrebleu"] for seed in (2, 3))
    assert np.array_equal(whole[0], changed[0]) and changed[1][0] == 2 < whole[1][0]
    with pytest.raises(ScoreError, match=r"seed12\.test\.npz: cannot be read: No such file"):
        read_counts(folder / name(12), COUNTERS)


def test_a_damaged_archive_stays_as_it_is(tmp_path: Path) -> None:
    """Counts are missing rather than those of other runs lost; what a killed writer has left goes."""
    (tmp_path / ".transformer_tiny.zip.99999.part").write_text("half")
    save(tmp_path / name(1))
    assert {path.name for path in tmp_path.iterdir()} == {"transformer_tiny.zip", ".lock"}
    archive = tmp_path / "transformer_tiny.zip"
    archive.write_bytes(archive.read_bytes()[:-30])
    damaged = archive.read_bytes()
    for call in (lambda: save(tmp_path / name(2)), lambda: read_counts(tmp_path / name(1), COUNTERS)):
        with pytest.raises(
            ScoreError, match=r"transformer_tiny\.zip: no archive of counts, or a damaged one: .*"
        ) as told:
            call()
        assert "\n" not in str(told.value) and archive.read_bytes() == damaged
    assert has_counts(tmp_path / name(1))
