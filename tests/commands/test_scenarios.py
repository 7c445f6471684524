"""What fairseq's users do beside plain translation: one of each, with models of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.cli import class_flags, fairseq, make_classes, train_flags

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("scenarios")]  # two trainings serve most of this file
PAIR = ("-s", "xx", "-t", "yy", "--cpu", "--max-len-b", 10)


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("scenarios")
    for seed in 1, 2:
        fairseq("train", *train_flags(data, "transformer_csan_tiny", folder / str(seed), updates=10, seed=seed))
    return [folder / str(seed) / "checkpoint_last.pt" for seed in (1, 2)]


def lines_of(out: str, kind: str) -> dict[int, str]:
    """Return sentence → what stands last in its line of a kind, such as H for hypotheses."""
    rows = (line.split("\t") for line in out.splitlines() if line.startswith(f"{kind}-"))
    return {int(row[0][2:]): row[-1] for row in rows}


def test_many_languages(data: Path, tmp_path: Path) -> None:
    """Both directions in one model, each told by a token in front of the source."""
    task = ["--task", "translation_multi_simple_epoch", "--langs", "xx,yy", "--lang-pairs", "xx-yy,yy-xx",
            "--encoder-langtok", "tgt", "--sampling-method", "temperature"]  # fmt: skip
    train = ["--arch", "transformer_csan_tiny", "--share-all-embeddings", "--optimizer", "adam", "--max-tokens", 300,
             "--max-update", 4, "--cpu", "--save-dir", tmp_path, "--no-epoch-checkpoints"]  # fmt: skip
    assert "num_updates 4" in fairseq("train", data, *task, *train).stdout
    for source, target in ("xx", "yy"), ("yy", "xx"):
        pair = ("-s", source, "-t", target, *PAIR[4:])
        done = fairseq("generate", data, *task, *pair, "--path", tmp_path / "checkpoint_last.pt")
        assert len(lines_of(done.stdout, "H")) == 12


@pytest.mark.parametrize(("report", "metric"), [("report_mcc", "mcc"), ("report_acc_and_f1", "f1")])
def test_the_best_classifier_by_a_metric(report: str, metric: str, data: Path, tmp_path: Path) -> None:
    """fairseq computes both from labels that are numbers."""
    best: dict[str, Any] = {report: True, "best_checkpoint_metric": metric, "maximize_best_checkpoint_metric": True}
    words = make_classes(data, tmp_path, ("0", "1")), "transformer_diffwin_classifier_tiny", tmp_path / "run", 4
    done = fairseq("train", *class_flags(*words, lr=0.003, save_interval_updates=2, **best))
    assert f"best_{metric}" in done.stdout
    assert (tmp_path / "run" / "checkpoint_best.pt").is_file()


def test_constraints_are_in_the_translation(trained: list[Path], data: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("a b c d\th g\ne f\ta\tb c\ne f\n")
    words = ["--path", trained[0], "--input", given, "--constraints", "--beam", 4, *PAIR]
    found = lines_of(fairseq("interactive", data, *words).stdout, "H")
    assert "h g" in found[0] and "a" in found[1].split() and "b c" in found[1] and 2 in found


def test_an_ensemble(trained: list[Path], data: Path) -> None:
    """The scores of a model with itself are its own, those with another one are not."""
    first, second = trained
    scores = {
        paths: lines_of(fairseq("generate", data, "--path", paths, *PAIR).stdout, "P")
        for paths in (str(first), f"{first}:{first}", f"{first}:{second}")
    }
    alone, doubled, mixed = scores.values()
    assert len(alone) == 12 and doubled == alone and mixed != alone
