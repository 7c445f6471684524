"""Hostile recipes and tables: each is refused in one line and at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from experiments.recipes import nodes
from experiments.recipes.recipe import PREPARATIONS, load_recipe
from experiments.recipes.tables import load_table
from support.recipes import BASE

SECONDS = 5.0  # for one file, on a busy machine

_LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


def with_data(data: str) -> str:
    """Return BASE with other data, on line 1."""
    return f"data: {{{data}}}\n" + BASE.partition("\n")[2]


def prepared_by(script: str) -> str:
    """Return BASE with the data of another script."""
    return with_data(f"name: x, prepare: {script}")


# name → content, line of the error (0: none is named), part of the message
RECIPES: dict[str, tuple[str | bytes, int, str]] = {
    "script above": (prepared_by("../x.sh"), 1, "prepare '../x.sh': a recipe runs scripts of data-prep/ alone"),
    "script with a NUL": (prepared_by('"data-prep/x\\0.sh"'), 1, "data-prep/ alone"),
    "data outside of the output": (with_data("name: ../../x, prepare: data-prep/prepare_toy.sh"), 1, "name '../../x'"),
    "5,000 brackets": ("seeds: " + "[" * 5000 + "]" * 5000 + "\n", 0, "nested too deeply"),
    "aliases of aliases": (_LAUGHS, 2, "*a0: no aliases in a recipe"),
    "a key twice": ("gpus: 1\ngpus: 2\n", 2, "gpus was already given on line 1"),
    "a tag of Python": ("label: !!python/object/apply:os.system [id]\n", 1, "no tags in a recipe"),
    "a key that is a list": ("train: {lr: {[a]: 1}}\n", 1, "a key must be a word"),
    "a NUL": ("gpus: 1\nlabel: a\0b\n", 2, "the character U+0000 cannot stand in YAML"),
    "a device": ("extends: /dev/zero\n", 1, "which is not there"),
    "a mapping for a file": ("extends: {a: b}\n", 1, "extends {'a': 'b'}, which is not there"),
    "megabytes": (b"label: " + b"x" * nodes.MOST_BYTES, 0, "larger than 1,000,000 bytes"),
    "nothing": (b"", 0, "a recipe is a mapping"),
}  # fmt: skip


def assert_one_line(error: nodes.RecipeError, path: Path, line: int, message: str) -> None:
    """Assert that an error names its file and line, and is one line."""
    said = str(error)
    assert said.startswith(f"{path}:{line}: " if line else f"{path}"), said[:300]
    assert message in said and len(said.splitlines()) == 1, said[:300]


@pytest.mark.parametrize("name", RECIPES)
def test_hostile_recipe(name: str, tmp_path: Path) -> None:
    content, line, message = RECIPES[name]
    path = tmp_path / "r.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    begin = time.monotonic()
    with pytest.raises(nodes.RecipeError) as caught:
        load_recipe(path)
    assert time.monotonic() - begin < SECONDS
    assert_one_line(caught.value, path, line, message)


def test_scripts_behind_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in data-prep/ to a script elsewhere is refused; data-prep/ itself may be a link."""
    from experiments.recipes import recipe

    monkeypatch.setattr(recipe, "ROOT", tmp_path / "root")
    monkeypatch.setattr(recipe, "PREPARATIONS", tmp_path / "root/data-prep")
    (tmp_path / "root").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "root/data-prep").symlink_to(tmp_path / "real")
    for script in (tmp_path / "x.sh", tmp_path / "real/own.sh"):
        script.write_text("exit 3\n")
    (tmp_path / "real/link.sh").symlink_to(tmp_path / "x.sh")
    path = tmp_path / "r.yaml"
    path.write_text(prepared_by("data-prep/own.sh"))
    assert load_recipe(path).corpus.prepare == "data-prep/own.sh"
    path.write_text(prepared_by("data-prep/link.sh"))
    with pytest.raises(nodes.RecipeError, match="runs scripts of data-prep/ alone") as caught:
        load_recipe(path)
    assert_one_line(caught.value, path, 1, "link.sh")


def test_files_that_extend_each_other(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"r{number}.yaml").write_text(f"extends: r{number + 1}.yaml\n")
    with pytest.raises(nodes.RecipeError, match="r20.yaml:1: more than 20 files extend each other"):
        load_recipe(tmp_path / "r0.yaml")


_ROWS = "rows:\n  a: {label: x}\n"

TABLES: dict[str, tuple[str, int, str]] = {
    "rows of another folder": ("rows:\n  a: {same_as: ../../x/b}\n", 2, "'../../x' is no name of a table"),
    "a row that is a path": ("rows:\n  ../a: {label: x}\n", 2, "the name of a row has lower-case letters"),
    "small scale from a device": (f"small: /dev/zero\n{_ROWS}", 1, "there is no such file"),
}


@pytest.mark.parametrize("name", TABLES)
def test_hostile_table(name: str, tmp_path: Path) -> None:
    content, line, message = TABLES[name]
    path = tmp_path / "table.yaml"
    path.write_text(content)
    with pytest.raises(nodes.RecipeError) as caught:
        load_table(path)
    assert_one_line(caught.value, path, line, message)


def test_committed_recipes_are_far_below_the_bound() -> None:
    files = sorted((PREPARATIONS.parent / "configs").rglob("*.yaml"))
    assert files and max(path.stat().st_size for path in files) * 20 < nodes.MOST_BYTES
    for path in files:
        assert nodes.compose(path)
