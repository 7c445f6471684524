"""Each console script once as a process of its own, and the scoring script."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support import forked
from support.cli import REPOSITORY, USER_DIR, fairseq, fairseq_in_shell, lm_flags, make_text, run, train_flags

pytestmark = pytest.mark.xdist_group("doors")  # one training serves all of this file


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the checkpoint of two updates of fairseq-train."""
    folder = tmp_path_factory.mktemp("doors")
    fairseq_in_shell("train", *train_flags(data, "transformer_csan_tiny", folder, updates=2), cwd=folder)
    return folder / "checkpoint_last.pt"


@pytest.mark.slow
def test_generate_and_score(trained: Path, data: Path, tmp_path: Path) -> None:
    """Every sentence is translated, and scripts/score.py scores the translations."""
    fairseq_in_shell("generate", data, "--path", trained, "--beam", 5, "--cpu", "--results-path", tmp_path,
                     "-s", "xx", "-t", "yy", "--max-len-b", 12, "--task", "translation", cwd=tmp_path)  # fmt: skip
    generated = tmp_path / "generate-test.txt"
    assert sum(line.startswith("H-") for line in generated.read_text().splitlines()) == 12
    scored = run(sys.executable, REPOSITORY / "scripts" / "score.py", generated, "--reference", data.parent / "test.yy",
                 "--bpe", "none", "--target", "en")  # fmt: skip
    assert re.search(r"BLEU.*\d+\.\d", scored.stdout)


@pytest.mark.slow
def test_interactive(trained: Path, data: Path, tmp_path: Path) -> None:
    """From another directory, with the path that ``python -m fairseq_localattn --path`` prints."""
    path = run(sys.executable, "-m", "fairseq_localattn", "--path", cwd=tmp_path).stdout.strip()
    assert Path(path) == USER_DIR
    words = [data, "--user-dir", path, "--path", trained, "--cpu", "--input", data.parent / "test.xx",
             "-s", "xx", "-t", "yy", "--beam", 2]  # fmt: skip
    translated = forked.run("fairseq-interactive", *words, cwd=tmp_path).stdout
    assert sum(line.startswith("H-") for line in translated.splitlines()) == 12


@pytest.mark.slow
def test_validate(trained: Path, data: Path, tmp_path: Path) -> None:
    validated = forked.run("fairseq-validate", data, "--task", "translation", "--path", trained, "--cpu",
                           "--max-tokens", 500, "--user-dir", USER_DIR, cwd=tmp_path)  # fmt: skip
    found = re.search(r"valid on 'valid' subset \| loss ([\d.]+)", validated.stdout + validated.stderr)
    assert found and 0 < float(found[1]) < 20


@pytest.mark.slow
def test_language_model(data: Path, tmp_path: Path) -> None:
    """fairseq-eval-lm with the plugin: checkpoints are allowed, numpy 2 is no obstacle, every sentence is scored."""
    binarised = make_text(data, tmp_path / "bin")
    fairseq("train", *lm_flags(binarised, "transformer_lm_localattn_tiny", tmp_path / "run", 2))
    scored = forked.run(
        "fairseq-eval-lm", binarised, "--path", tmp_path / "run" / "checkpoint_last.pt", "--cpu", "--gen-subset",
        "test", "--sample-break-mode", "eos", "--max-tokens", 500, "--user-dir", USER_DIR, cwd=tmp_path,
    )  # fmt: skip
    words = sum(len(line.split()) + 1 for line in (data.parent / "test.xx").read_text().splitlines())
    assert f"Evaluated {words} tokens" in scored.stdout + scored.stderr


@pytest.mark.slow
def test_a_mistake_ends_in_one_line(data: Path, tmp_path: Path) -> None:
    """No traceback, a non-zero exit, and nothing written."""
    words = train_flags(data, "transformer_csan_tiny", tmp_path / "run", updates=1)
    failed = fairseq_in_shell("train", *words, "--csan-window", 4, check=False)
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
