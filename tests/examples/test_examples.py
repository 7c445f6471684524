"""Every example runs as its reader would run it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cli import BIN, run
from support.paths import ROOT

EXAMPLES = ROOT / "examples"
# Runs a script in an interpreter that has no fairseq.
WITHOUT_FAIRSEQ = """
import runpy, sys
sys.modules.update(dict.fromkeys(("fairseq", "fairseq_cli", "omegaconf", "hydra")))
sys.argv = [*sys.argv[1:], "--steps", "100"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("flags", [[], ["--text", "2*local + 2*(csan(window=5, head_span=1) & rope)"]])
@pytest.mark.slow
def test_attention_without_fairseq_learns(flags: list[str]):
    """A mechanism in a layer of its own, and a text inside of torch's encoder layer."""
    done = run(sys.executable, "-c", WITHOUT_FAIRSEQ, EXAMPLES / "attention_without_fairseq.py", *flags)
    assert float(done.stdout.split("accuracy on new texts: ")[1]) > 0.95


@pytest.mark.slow
def test_fine_tuning_with_transformers():
    """The text alone makes the model no better; training with it does."""
    pytest.importorskip("transformers", reason="pip install 'fairseq_localattn[transformers]'")
    flags = ("--text", "local(window=3)", "--steps", 100)
    done = run(sys.executable, EXAMPLES / "finetune_with_transformers.py", *flags)
    before, changed, after = (float(line.split("loss ")[1]) for line in done.stdout.splitlines()[:3])
    assert after < min(before, changed) and after < 0.8
    assert float(done.stdout.split("follow the rule: ")[1]) > 0.8


NOTEBOOK = (EXAMPLES / "masks.ipynb").read_text("utf-8")
CODE = [cell for cell in json.loads(NOTEBOOK)["cells"] if cell["cell_type"] == "code"]


def test_notebook_draws_every_mechanism(monkeypatch: pytest.MonkeyPatch):
    """The code of its cells, without Jupyter."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(len(plt.gcf().axes)))
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in CODE:
        exec("".join(cell["source"]), names)
    plt.close("all")
    assert shown == [4, 3, 3, 4, 4]


def test_notebook_is_committed_with_its_pictures():
    """One a cell that shows some, of an execution in order, without what else a run prints."""
    assert len(NOTEBOOK) < 100_000, "give smaller pictures"
    assert [cell["execution_count"] for cell in CODE] == [1, 2, 3, 4, 5, 6]
    outputs = [[output["data"] for output in cell["outputs"]] for cell in CODE]
    assert [len(each) for each in outputs] == [0] + [1] * 5 and all("image/png" in data for (data,) in outputs[1:])


@pytest.mark.slow
def test_own_data_from_raw_text_to_translations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"UPDATES": "60", "MERGES": "150", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}.items():
        monkeypatch.setenv(name, value)
    run(EXAMPLES / "own_data" / "run.sh", tmp_path)
    rows = [line.split("\t") for line in (tmp_path / "translations.tsv").read_text("utf-8").splitlines()]
    raw = (tmp_path / "data" / "raw" / "test.de").read_text("utf-8").splitlines()
    assert [source for source, _ in rows] == raw[:5]
    assert all(translation and "@@" not in translation for _, translation in rows)


def test_own_data_explains_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    done = run(EXAMPLES / "own_data" / "run.sh", check=False)
    assert done.returncode == 2 and "From raw text files to translations" in done.stdout and "set -e" not in done.stdout
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    bare = run("bash", EXAMPLES / "own_data" / "run.sh", tmp_path / "out", check=False)
    assert bare.returncode == 2 and "source .venv/bin/activate first" in bare.stderr
    assert not (tmp_path / "out").exists()


def test_own_data_splits_do_not_overlap(tmp_path: Path):
    run(sys.executable, EXAMPLES / "own_data" / "make_text.py", tmp_path)
    pairs = {}
    for split in ("train", "valid", "test"):
        sides = [(tmp_path / f"{split}.{lang}").read_text("utf-8").splitlines() for lang in ("de", "en")]
        pairs[split] = set(zip(*sides, strict=True))
    assert len(pairs["train"]) > 500 and len(pairs["valid"]) == len(pairs["test"]) == 20
    assert len(set.union(*pairs.values())) == sum(map(len, pairs.values()))
