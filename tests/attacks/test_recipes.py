"""Hostile recipes and tables: each is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.recipes import nodes, recipe
from experiments.recipes.recipe import load_recipe
from experiments.recipes.tables import load_table
from support.recipes import BASE


def with_data(data: str) -> str:
    """Return BASE with other data, on line 1."""
    return f"data: {{{data}}}\n" + BASE.partition("\n")[2]


# name → content, line of the error (0: none is named), part of the message; others: tests/experiments/recipes
RECIPES: dict[str, tuple[str, int, str]] = {
    "script above": (with_data("name: x, prepare: ../x.sh"), 1, "'../x.sh': a recipe runs scripts of data-prep/ alone"),
    "script with a NUL": (with_data('name: x, prepare: "data-prep/x\\0.sh"'), 1, "data-prep/ alone"),
    "data outside of the output": (with_data("name: ../../x, prepare: data-prep/prepare_toy.sh"), 1, "name '../../x'"),
    "5,000 brackets": ("seeds: " + "[" * 5000 + "]" * 5000 + "\n", 0, "nested too deeply"),
    "aliases, which can multiply": ("a0: &a0 [x, x]\na1: [*a0, *a0]\n", 2, "*a0: no aliases in a recipe"),
    "a key twice": ("gpus: 1\ngpus: 2\n", 2, "gpus was already given on line 1"),
    "a tag of Python": ("label: !!python/object/apply:os.system [id]\n", 1, "no tags in a recipe"),
    "a NUL": ("gpus: 1\nlabel: a\0b\n", 2, "the character U+0000 cannot stand in YAML"),
    "a device": ("extends: /dev/zero\n", 1, "which is not there"),
    "megabytes": ("label: " + "x" * nodes.MOST_BYTES, 0, "larger than 1,000,000 bytes"),
}
_ROWS = "rows:\n  a: {label: x}\n"
TABLES: dict[str, tuple[str, int, str]] = {
    "rows of another folder": ("rows:\n  a: {same_as: ../../x/b}\n", 2, "'../../x' is no name of a table"),
    "a row that is a path": ("rows:\n  ../a: {label: x}\n", 2, "the name of a row has lower-case letters"),
    "small scale from a device": (f"small: /dev/zero\n{_ROWS}", 1, "there is no such file"),
}


@pytest.mark.parametrize("name", [*RECIPES, *TABLES])
def test_hostile(name: str, tmp_path: Path) -> None:
    content, line, message = {**RECIPES, **TABLES}[name]
    path = tmp_path / "r.yaml"
    path.write_text(content)
    with pytest.raises(nodes.RecipeError) as caught:
        (load_recipe if name in RECIPES else load_table)(path)
    said = str(caught.value)
    assert said.startswith(f"{path}:{line}: " if line else f"{path}: "), said[:300]
    assert message in said and "\n" not in said, said[:300]


def test_scripts_behind_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in data-prep/ to a script elsewhere is refused; data-prep/ itself may be a link."""
    monkeypatch.setattr(recipe, "ROOT", tmp_path / "root")
    monkeypatch.setattr(recipe, "PREPARATIONS", tmp_path / "root/data-prep")
    (tmp_path / "root").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "root/data-prep").symlink_to(tmp_path / "real")
    for script in (tmp_path / "x.sh", tmp_path / "real/own.sh"):
        script.write_text("exit 3\n")
    (tmp_path / "real/link.sh").symlink_to(tmp_path / "x.sh")
    path = tmp_path / "r.yaml"
    path.write_text(with_data("name: x, prepare: data-prep/own.sh"))
    assert load_recipe(path).corpus.prepare == "data-prep/own.sh"
    path.write_text(with_data("name: x, prepare: data-prep/link.sh"))
    with pytest.raises(nodes.RecipeError, match=r"link\.sh.*runs scripts of data-prep/ alone"):
        load_recipe(path)


def test_files_that_extend_each_other(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"r{number}.yaml").write_text(f"extends: r{number + 1}.yaml\n")
    with pytest.raises(nodes.RecipeError, match="r20.yaml:1: more than 20 files extend each other"):
        load_recipe(tmp_path / "r0.yaml")
