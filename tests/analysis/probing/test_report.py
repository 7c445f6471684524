"""The rows of the probing tasks' results."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_localattn.analysis.probing.report import HEADER, read_rows
from fairseq_localattn.errors import UsageError


def test_blank_lines_of_results_are_skipped_and_cut_ones_are_not(tmp_path: Path) -> None:
    row = ",".join("1" for _ in HEADER)
    (tmp_path / "a.csv").write_text(f"{','.join(HEADER)}\n\n{row}\n\n")
    assert read_rows(tmp_path / "a.csv") == [dict.fromkeys(HEADER, "1")]
    for end, said in ((row, "5: the line is cut, .* or end it, if it is whole"), ("1,2\n", "5: 2 columns")):
        (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text() + end)
        with pytest.raises(UsageError, match=f"b.csv:{said}"):
            read_rows(tmp_path / "b.csv")
