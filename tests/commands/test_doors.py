"""Console scripts as processes of their own: success, a mistake, and a traceback that is asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import forked
from support.cli import BIN, USER_DIR, fairseq, run, train_flags


@pytest.mark.slow
def test_validate(data: Path, tmp_path: Path) -> None:
    """The other commands are run so by tests/docs/test_commands.py."""
    fairseq("train", *train_flags(data, "transformer_csan_tiny", tmp_path, updates=1))
    words = [data, "--task", "translation", "--path", tmp_path / "checkpoint_last.pt", "--cpu", "--max-tokens", 500]
    validated = forked.run("fairseq-validate", *words, "--user-dir", USER_DIR, cwd=tmp_path)
    found = re.search(r"valid on 'valid' subset \| loss ([\d.]+)", validated.stdout + validated.stderr)
    assert found and 0 < float(found[1]) < 20


@pytest.mark.slow
def test_a_mistake_ends_in_one_line(data: Path, tmp_path: Path) -> None:
    words = train_flags(data, "transformer_csan_tiny", tmp_path / "run", updates=1)
    failed = run(BIN / "fairseq-train", *words, "--csan-window", 4, "--user-dir", USER_DIR, check=False)
    said = [line for line in failed.stderr.splitlines() if not line.startswith(("INFO:", "DEBUG:", "WARNING:"))]
    assert failed.returncode == 1 and len(said) == 1 and "window must be odd" in said[0], failed.stderr
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("*.pt"))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_a_traceback_is_shown_where_it_is_asked_for(level: str, data: Path, tmp_path: Path) -> None:
    """fairseq-generate sets the root logger to DEBUG by its imports."""
    words = [data, "--path", "none.pt", "-s", "xx", "-t", "yy", "--cpu", "--results-path", "/dev/null/x"]
    done = forked.run("fairseq-generate", *words, "--user-dir", USER_DIR, cwd=tmp_path, LOGLEVEL=level)
    assert done.returncode == 1 and ("Traceback" in done.stderr) == (level == "DEBUG")
    assert done.stderr.splitlines()[-1].startswith("fairseq_localattn: Not a directory: /dev/null/x")
