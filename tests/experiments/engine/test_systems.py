"""Systems of a comparison: architectures with further flags, from the recipe to the row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.data import preparation as corpus
from experiments.engine import compare
from experiments.recipes import recipe
from experiments.report import results
from experiments.runs import processes as jobs
from experiments.runs import run as runs
from support.recipes import BASE, write
from tests.experiments.engine.test_quickstart import RECIPE, make_tiny_data, rows_of
from tests.experiments.recipes.test_recipes import call, commands, without

MMA, PLAIN = "transformer_mma_small", "transformer_localattn_small"
SYSTEMS = f"""\
systems:
  near: {{arch: {MMA}, mma-window: 1, lr: [0.005]}}
  far: {{arch: {MMA}, mma_window: 9}}
  pre-norm.1: {{arch: {PLAIN}, encoder_normalize_before: true, decoder_normalize_before: true}}
"""


def with_system(entry: str) -> str:
    """BASE with one system, which then stands on line 4."""
    return BASE.replace("train:\n", f"systems:\n  {entry}\ntrain:\n")


def load(folder: Path, text: str, name: str = "r.yaml") -> recipe.Recipe:
    return recipe.load_recipe(write(folder, text, name))


# --- recipes


def test_flags_of_a_system_replace_those_of_train(tmp_path: Path) -> None:
    loaded = load(tmp_path, SYSTEMS + BASE)
    plain = recipe.expand(loaded, "train", arch=MMA)
    arch, near = loaded.system("near")
    argv = recipe.expand(near, "train", arch=arch)
    assert arch == MMA and argv[argv.index("--mma-window") + 1] == "1" and argv[argv.index("--lr") + 1] == "[0.005]"
    assert "--mma-window" not in plain and plain[plain.index("--lr") + 1] == "[0.001, 0.002]"
    flags = ("--lr", "--mma-window")
    assert without([*argv], *flags, "--arch") == [*without(plain, "--lr"), "--mma-window"]
    assert recipe.expand(near, "generate", arch=arch) == recipe.expand(loaded, "generate", arch=arch)
    assert loaded.system(MMA) == (MMA, loaded)


def test_an_extending_recipe_adds_replaces_and_removes_systems(tmp_path: Path) -> None:
    write(tmp_path, SYSTEMS + BASE, "base.yaml")
    child = (
        f"extends: base.yaml\nsystems:\n  near: {{arch: {MMA}, dropout: 0.2}}\n  far: null\n  new: {{arch: {PLAIN}}}\n"
    )
    systems = load(tmp_path, child).get("systems")
    assert list(systems) == ["near", "pre-norm.1", "new"]
    assert {key: entry.value for key, entry in systems["near"].items()} == {"arch": MMA, "dropout": 0.2}
    assert systems["near"]["dropout"].where == f"{tmp_path / 'r.yaml'}:3"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (f"x: {{arch: {MMA}, mma_windw: 1}}", f"no flag 'mma_windw' for {MMA}; did you mean 'mma_window'"),
        (f"x: {{arch: {PLAIN}, mma_window: 1}}", f"no flag 'mma_window' for {PLAIN}"),
        (f"x: {{arch: {MMA}, mma_window: a}}", "invalid int value: 'a'"),
        (f"x: {{arch: {MMA}, mma_window: -1}}", "the window of the local heads must be 1 or more, not -1"),
        (f"x: {{arch: {MMA}, dropout: true}}", "--dropout needs a value"),
        (f"x: {{arch: {MMA}, dropout: null}}", "dropout has no value"),
        (f"x: {{arch: {MMA}, encoder_layers: 2}}", "is a model size: sizes stand in the architecture"),
        (f"x: {{arch: {MMA}, seed: 2}}", "seed is set by the runner"),
        (f"x: {{arch: {MMA}, max_update: 9}}", "compared after the max_update of train"),
        ("x: {dropout: 0.2}", "system x needs an architecture"),
        ("x: {arch: [a]}", "system x needs an architecture"),
        ("x: {arch: transformer_nosuch}", "transformer_nosuch: no such architecture; there are .*transformer_mma"),
        ("x: {arch: transformer}", "systems of different sizes cannot be compared"),
        (f"x: {MMA}", "system x must hold its arch and flags"),
        ("x: ", "system x has no value, and there is none to remove"),
        (f"a/b: {{arch: {MMA}}}", "system a/b: its name may have letters"),
        (f"-a: {{arch: {MMA}}}", "system -a: its name may have letters"),
        (f"{PLAIN}: {{arch: {MMA}}}", "this is the name of an architecture"),
        ("[x]: 1", "system "),
    ],
)
def test_a_wrong_system_is_told_with_file_and_line(
    entry: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    path = write(tmp_path, with_system(entry))
    assert call(compare.main, monkeypatch, path, "--dry-run", "--results", tmp_path) == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert re.search(message, error), error
    assert error.startswith(f"compare: error: {path}:4: ") or "different sizes" in error, error


# --- settings and rows


def test_settings_hash_of_a_system(tmp_path: Path) -> None:
    """Without further flags the hash that committed rows and folders of runs have; with them one of their own."""
    assert runs.settings_hash(load(tmp_path, BASE), "data") == "ce439312"
    loaded = load(tmp_path, SYSTEMS + BASE)
    assert runs.settings_hash(loaded.system(MMA)[1], "data") == runs.settings_hash(loaded, "data") == "ce439312"
    entries = (
        f"{{arch: {MMA}}}", f"{{arch: {PLAIN}}}", f"{{arch: {MMA}, dropout: 0.1}}", f"{{arch: {MMA}, dropout: 0.2}}",
        f"{{arch: {PLAIN}, dropout: 0.2}}",
    )  # fmt: skip
    hashes = [runs.settings_hash(load(tmp_path, with_system(f"x: {text}")).system("x")[1], "data") for text in entries]
    assert len({"ce439312", *hashes}) == 6
    slower = load(tmp_path, with_system(f"x: {{arch: {MMA}, dropout: 0.2, log_interval: 7}}"))
    assert runs.settings_hash(slower.system("x")[1], "data") == hashes[3]


def test_rows_without_a_system_are_those_of_their_architecture(tmp_path: Path) -> None:
    """A file with the columns of before is read; append() writes the column, and changes no other value."""
    new = dict.fromkeys(results.COLUMNS, "x")
    old = {**new, "arch": "a", "seed": "1"}
    path = write(tmp_path, "".join(",".join(line) + "\n" for line in (results.COLUMNS[1:], list(old.values())[1:])))
    table = results.Table(path)
    assert table.rows() == [{**old, "system": "a"}]
    assert table.append({**old, "system": "a"}) is False and table.append({**old, "system": "b"}) is True
    assert path.read_text().splitlines()[0] == ",".join(results.COLUMNS)
    assert table.rows() == [{**old, "system": "a"}, {**old, "system": "b"}]


# --- the comparison


def dry_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, *argv: object) -> list[list[str]]:
    assert call(compare.main, monkeypatch, *argv, "--dry-run") == 0
    return commands(capsys.readouterr().out)


def test_dry_run_of_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """Systems of one architecture keep their flags apart, and the baseline has none."""
    path = write(tmp_path, SYSTEMS + BASE)
    trained = dry_run(monkeypatch, capsys, path, "--seeds", "1,2", "--out", tmp_path / "out", "--results", tmp_path)
    found = [Path(line[line.index("--save-dir") + 1]).parent.name.rsplit(".", 1)[0] for line in trained]
    systems = [PLAIN, MMA, "near", "far", "pre-norm.1"]
    assert found == [f"{system}.seed{seed}" for system in systems for seed in (1, 2)]
    by_name = dict(zip(found, trained, strict=True))
    windows = {name: line[line.index("--mma-window") + 1] for name, line in by_name.items() if "--mma-window" in line}
    assert windows == {"near.seed1": "1", "near.seed2": "1", "far.seed1": "9", "far.seed2": "9"}
    flags = ["--encoder-normalize-before", "--decoder-normalize-before"]
    assert [name for name, line in by_name.items() if set(flags) & set(line)] == [
        "pre-norm.1.seed1",
        "pre-norm.1.seed2",
    ]
    plain, prenorm = (without(by_name[f"{name}.seed1"], "--save-dir", "--log-file") for name in (PLAIN, "pre-norm.1"))
    assert [*plain, *flags] == prenorm

    for option in ("--systems", "--archs"):
        names = "far,transformer_csan_small"
        trained = dry_run(monkeypatch, capsys, path, option, names, "--out", tmp_path / "out", "--results", tmp_path)
        assert [line[line.index("--arch") + 1] for line in trained] == [PLAIN, MMA, "transformer_csan_small"]
    assert call(compare.main, monkeypatch, path, "--systems", "fr", "--dry-run") == 2
    assert re.search("fr: no such architecture; there are near, far, .*transformer_mma", capsys.readouterr().err)


@pytest.mark.slow
def test_comparison_of_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    """Trained for real: a system that fails does not stop the others; mended, it alone is trained."""
    systems = """\
architectures: []
systems:
  prenorm: {arch: transformer_localattn_tiny, encoder_normalize_before: true, decoder_normalize_before: true}
  near: {arch: transformer_mma_tiny, mma_window: 3}
"""
    text = re.sub(r"architectures:.*\n", systems, RECIPE).replace("UPDATES", "5")
    path, out = write(tmp_path, text, "tiny.yaml"), tmp_path / "out"
    loaded = recipe.load_recipe(path)
    data = corpus.data_of(loaded, out)
    make_tiny_data(data.folder)
    monkeypatch.setattr(compare, "prepare", lambda *args, **kwargs: None)
    options = [path, "--seeds", "3", "--out", out, "--results", tmp_path]
    settings = runs.settings_hash(loaded.system("near")[1], data.fingerprint())
    obstacle = out / f"near.seed3.{settings}" / "checkpoints"
    jobs.write_atomic(obstacle, "a file where fairseq-train wants a folder")

    assert call(compare.main, monkeypatch, *options) == 1
    assert "compare: failed: near (seed 3): " in capfd.readouterr().err
    rows = {row["system"]: row for row in rows_of(tmp_path / "tiny.csv")}
    assert set(rows) == {"transformer_localattn_tiny", "prenorm"}
    plain, prenorm = rows["transformer_localattn_tiny"], rows["prenorm"]
    assert prenorm["arch"] == prenorm["baseline"] == "transformer_localattn_tiny"
    assert plain["p_value"] == "" and 0 < float(prenorm["p_value"]) <= 1
    # pre-norm has one more layer norm, of 64 gains and biases, at the end of each stack
    assert int(prenorm["parameters"]) == int(plain["parameters"]) + 4 * 64

    obstacle.unlink()
    assert call(compare.main, monkeypatch, *options) == 0
    text = capfd.readouterr().out
    assert "1 of 3 runs to do" in text and re.search(r"near \(seed 3\): BLEU \d", text)
    assert re.search(r"(?m)^system +seeds", text) and re.search(r"(?m)^near +1 ", text)
    rows = {row["system"]: row for row in rows_of(tmp_path / "tiny.csv")}
    assert list(rows)[2:] == ["near"] and rows["near"]["arch"] == "transformer_mma_tiny"
    assert re.search(r"\bmma_window=3\b", (obstacle.parent / "train.log").read_text())
