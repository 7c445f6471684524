"""The command that measures locality: table, CSV file and plot."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_localattn.analysis.attention_weights import Sublayer, collect_weights, self_attentions
from fairseq_localattn.analysis.evaluation import Trained, load_trained, read_split
from fairseq_localattn.analysis.locality import command as locality
from fairseq_localattn.analysis.locality.command import main
from fairseq_localattn.analysis.locality.measure import measure, select
from fairseq_localattn.errors import UsageError
from support.analysis import share_by_loops
from support.cli import call, fairseq, make_data, train_flags

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")  # fairseq's loader, without a GPU

WINDOWS = [0, 1, 2, 5]
ARCHITECTURES = {"mma": "transformer_mma_tiny", "man": "transformer_man_tiny"}
SUBLAYERS = {"mma": 4, "man": 8}  # with self-attention, in two layers of two stacks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("locality"), train=40)


@pytest.fixture(scope="module")
def checkpoints(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the checkpoint after two updates by name."""
    folder = tmp_path_factory.mktemp("runs")
    for name, arch in ARCHITECTURES.items():
        fairseq("train", *train_flags(data, arch, folder / name, updates=2, disable_validation=True))
    return {name: folder / name / "checkpoint_last.pt" for name in ARCHITECTURES}


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the levels of loggers, which the command sets for its whole process."""
    monkeypatch.setattr(locality, "show_progress_alone", lambda: None)


@pytest.fixture(scope="module")
def told(data: Path, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Any]]:
    """Return what the command prints for the three checkpoints, and the rows of its CSV."""
    file = tmp_path_factory.mktemp("out") / "new" / "locality.csv"
    paths = [word for name, path in checkpoints.items() for word in ("--path", path, "--name", name)]
    flags = ["--stack", "both", "--windows", ",".join(map(str, WINDOWS)), "--max-tokens", 30, "--cpu"]
    picture = file.with_suffix(".png")
    done = call(main, data, *paths, *flags, "--csv", file, "--plot", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    with open(file, newline="") as lines:
        return done.stdout, list(csv.DictReader(lines))


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
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_command_measures_the_split(
    name: str, data: Path, checkpoints: dict[str, Path], told: tuple[str, list[Any]]
) -> None:
    """The CSV, from padded batches, agrees with loops over single sentences; all 12 sentences count."""
    rows = [row for row in told[1] if row["checkpoint"] == name]
    shares, tokens = one_by_one(load_trained(checkpoints[name], data, cpu=True))
    keys = [tuple(row[c] for c in ("stack", "layer", "sublayer", "kind", "window")) for row in rows]
    assert len(keys) == len(set(keys)) and set(keys) == set(shares)
    assert len(keys) == len(WINDOWS) * SUBLAYERS[name]
    for key, row in zip(keys, rows, strict=True):
        assert len(shares[key]) == int(row["sentences"]) == 12
        assert float(row["share"]) == pytest.approx(sum(shares[key]) / 12, abs=2e-4), key
        assert int(row["tokens"]) == tokens[row["stack"]]
        assert (row["architecture"], row["split"]) == (ARCHITECTURES[name], "test")


@pytest.mark.slow
def test_the_command_prints_a_table(told: tuple[str, list[Any]]) -> None:
    """In the shape of Table 5: a row for each w and sublayer, a column for each layer."""
    printed, rows = told
    man = printed[printed.index("man (transformer_man_tiny), test: 12 sentences") :]
    lines = [line.split() for line in man.split("decoder,")[0].splitlines()[2:]]
    assert lines[0] == ["w", "#1", "#2"]
    pairs = [(kind, str(window)) for window in WINDOWS for kind in ("dman", "san")]
    for (kind, window), (label, w, *cells) in zip(pairs, lines[1:], strict=True):
        key = ("man", "encoder", kind, window)
        shares = [
            float(r["share"]) for r in rows if tuple(r[c] for c in ("checkpoint", "stack", "kind", "window")) == key
        ]
        assert (label, w) == (kind.upper(), window)
        assert [float(cell) for cell in cells] == pytest.approx(shares, abs=0.0051)


def test_chosen_layers_and_sentences_that_are_too_long(data: Path, checkpoints: dict[str, Path]) -> None:
    trained = load_trained(checkpoints["mma"], data, cpu=True)
    chosen = select(trained, ["encoder"], "2")
    assert list(chosen) == [Sublayer("encoder", 2, "self_attn", "mma")]
    trained.model.max_positions = lambda: (6, 6)
    fitting = [line for line in (data.parent / "test.xx").read_text().splitlines() if len(line.split()) + 1 <= 6]
    split = read_split(trained, "test")
    assert 0 < len(fitting) < 12 and (split.sentences, split.too_long) == (len(fitting), 12 - len(fitting))
    measured = measure(trained, split, chosen, [9])
    assert measured.sentences == len(fitting)
    assert measured.tokens["encoder"] == sum(len(line.split()) + 1 for line in fitting)
    assert measured.shares == {Sublayer("encoder", 2, "self_attn", "mma"): [pytest.approx(1)]}
    trained.model.max_positions = lambda: (3, 3)
    with pytest.raises(UsageError, match="no sentence"):
        read_split(trained, "test")


def test_a_split_without_target(data: Path, checkpoints: dict[str, Path]) -> None:
    trained = load_trained(checkpoints["mma"], data, cpu=True)
    split = read_split(trained, "test")
    batches = [{**batch, "net_input": dict(batch["net_input"])} for batch in split.batches]
    for batch in batches:
        del batch["net_input"]["prev_output_tokens"]
    with pytest.raises(UsageError, match="test has no target side"):
        measure(trained, replace(split, batches=batches), select(trained, ["encoder"], "all"), [1])


MISTAKES = [
    (["--windows=-1"], "--windows -1: give whole numbers from 0"),
    (["--layers", "1,9"], "layer 9 is asked for, and the stack has 2"),
    (["--layers", "none"], "no self-attention there"),
    (["--max-tokens", "3"], "--max-tokens 3: test has a sentence of"),
    (["--csv", "{data}"], "cannot be written"),
]


@pytest.mark.parametrize(("flags", "message"), MISTAKES, ids=lambda x: x if isinstance(x, str) else None)
def test_mistakes_end_in_one_line(
    flags: list[str], message: str, data: Path, checkpoints: dict[str, Path], quiet: None
) -> None:
    words = [flag.replace("{data}", str(data)) for flag in flags]
    with pytest.raises(UsageError) as error:
        main([str(data), "--path", str(checkpoints["mma"]), "--cpu", *words])
    assert message in str(error.value) and "\n" not in str(error.value)
