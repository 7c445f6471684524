"""The command that measures locality: table, CSV file and plot."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
import torch

from fairseq_localattn.analysis.attention_weights import Sublayer, collect_weights, self_attentions
from fairseq_localattn.analysis.evaluation import Split, Trained, load_trained, read_split
from fairseq_localattn.analysis.locality.command import main
from fairseq_localattn.analysis.locality.measure import measure, select
from fairseq_localattn.errors import UsageError
from support.analysis import share_by_loops
from support.cli import call, fairseq, train_flags

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")  # fairseq's loader, without a GPU

WINDOWS = [0, 1, 2, 5]
ARCHITECTURES = {"mma": "transformer_mma_tiny", "man": "transformer_man_tiny"}


@pytest.fixture(scope="module")
def checkpoints(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, arch in ARCHITECTURES.items():
        fairseq("train", *train_flags(data, arch, folder / name, updates=2, disable_validation=True))
    return {name: folder / name / "checkpoint_last.pt" for name in ARCHITECTURES}


def one_by_one(trained: Trained) -> tuple[dict[tuple[str, ...], list[float]], Counter[str]]:
    """Return Eq. 13 by loops over single sentences, in percent by sublayer and window, and the tokens of each stack."""
    trained.task.load_dataset("test")
    dataset = trained.task.dataset("test")
    shares: dict[tuple[str, ...], list[float]] = {}
    tokens: Counter[str] = Counter()
    for n in range(len(dataset)):
        sample = dataset.collater([dataset[n]])
        with collect_weights(self_attentions(trained.model)) as weights, torch.no_grad():
            trained.model(**sample["net_input"])
        tokens["encoder"] += len(dataset[n]["source"])
        tokens["decoder"] += len(dataset[n]["target"])
        for at, found in weights.items():
            for window in WINDOWS:
                key = (at.stack, str(at.layer), at.name, at.kind, str(window))
                shares.setdefault(key, []).append(100 * share_by_loops(found[0], window))
    return shares, tokens


@pytest.mark.slow
def test_the_command_measures_the_split(data: Path, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """The CSV, from padded batches, agrees with loops over single sentences; all 12 sentences count."""
    file, picture = tmp_path / "new" / "locality.csv", tmp_path / "new" / "locality.png"
    paths = [word for name, path in checkpoints.items() for word in ("--path", path, "--name", name)]
    flags = ["--stack", "both", "--windows", ",".join(map(str, WINDOWS)), "--max-tokens", 30, "--cpu"]
    printed = call(main, data, *paths, *flags, "--csv", file, "--plot", picture).stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = list(csv.DictReader(file.read_text("utf-8").splitlines()))
    for name, architecture in ARCHITECTURES.items():
        rows = [row for row in found if row["checkpoint"] == name]
        shares, tokens = one_by_one(load_trained(checkpoints[name], data, cpu=True))
        keys = [tuple(row[c] for c in ("stack", "layer", "sublayer", "kind", "window")) for row in rows]
        assert len(keys) == len(set(keys)) and set(keys) == set(shares)
        for key, row in zip(keys, rows, strict=True):
            assert len(shares[key]) == int(row["sentences"]) == 12
            assert float(row["share"]) == pytest.approx(sum(shares[key]) / 12, abs=2e-4), key
            assert int(row["tokens"]) == tokens[row["stack"]]
            assert (row["architecture"], row["split"]) == (architecture, "test")
        head = f"{name} ({architecture}), test: 12 sentences\nencoder, {tokens['encoder']} tokens: % of attention"
        assert head in printed


def test_chosen_layers_and_sentences_that_are_too_long(data: Path, checkpoints: dict[str, Path]) -> None:
    trained = load_trained(checkpoints["mma"], data, cpu=True)
    chosen = select(trained, ["encoder"], "2")
    assert list(chosen) == [Sublayer("encoder", 2, "self_attn", "mma")]
    trained.model.max_positions = lambda: (6, 6)
    fitting = [line for line in (data.parent / "test.xx").read_text().splitlines() if len(line.split()) + 1 <= 6]
    split = read_split(trained, "test")
    assert 0 < len(fitting) < 12 and (split.sentences, split.too_long) == (len(fitting), 12 - len(fitting))
    assert measure(trained, split, chosen, [9]).sentences == len(fitting)
    trained.model.max_positions = lambda: (3, 3)
    with pytest.raises(UsageError, match="no sentence"):
        read_split(trained, "test")


def test_a_split_without_target(data: Path, checkpoints: dict[str, Path]) -> None:
    trained = load_trained(checkpoints["mma"], data, cpu=True)
    split = Split("test", [{"id": torch.tensor([0]), "net_input": {}}], sentences=1, too_long=0)
    with pytest.raises(UsageError, match="test has no target side"):
        measure(trained, split, select(trained, ["encoder"], "all"), [1])


MISTAKES = [
    (["--windows=-1"], "--windows -1: give whole numbers from 0"),
    (["--layers", "1,9"], "layer 9 is asked for, and the stack has 2"),
    (["--layers", "none"], "no self-attention there"),
    (["--max-tokens", "3"], "--max-tokens 3: test has a sentence of"),
    (["--csv", "{data}"], "cannot be written"),
]


@pytest.mark.parametrize(("flags", "message"), MISTAKES, ids=lambda x: x if isinstance(x, str) else None)
def test_mistakes_end_in_one_line(flags: list[str], message: str, data: Path, checkpoints: dict[str, Path]) -> None:
    words = [flag.replace("{data}", str(data)) for flag in flags]
    with pytest.raises(UsageError) as error:
        main([str(data), "--path", str(checkpoints["mma"]), "--cpu", *words])
    assert message in str(error.value) and "\n" not in str(error.value)
