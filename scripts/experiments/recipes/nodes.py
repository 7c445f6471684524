"""YAML files as nodes that know their lines, for errors that name file and line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names file and line."""


@dataclass(frozen=True)
class Entry:
    """A value of a recipe and its place, 'file:line'."""

    value: Any
    where: str


def compose(path: Path) -> yaml.MappingNode:
    """Return the mapping that a YAML file holds. Raises RecipeError."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise RecipeError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(root, yaml.MappingNode):
        raise RecipeError(f"{path}: a recipe is a mapping, one 'key: value' a line")
    return root


def mapping(path: Path, node: yaml.Node, what: str) -> dict[str, tuple[yaml.Node, str]]:
    """Return key → (node, 'file:line') of a mapping; ``what`` names it in an error. Raises RecipeError."""
    if not isinstance(node, yaml.MappingNode):
        raise RecipeError(f"{place(path, node)}: {what} must be a mapping, one 'key: value' a line")
    found: dict[str, tuple[yaml.Node, str]] = {}
    for key_node, value_node in node.value:
        where = place(path, key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            raise RecipeError(f"{where}: a key must be a word")
        key = str(key_node.value)
        if key in found:
            raise RecipeError(f"{where}: {key} was already given on line {found[key][1].rpartition(':')[2]}")
        found[key] = (value_node, where)
    return found


def place(path: Path, node: yaml.Node) -> str:
    """Return 'file:line' of a node."""
    return f"{path}:{node.start_mark.line + 1}"


def entry_of(path: Path, node: yaml.Node, where: str) -> Entry:
    """Return the Python value of a node. Raises RecipeError."""
    try:
        return Entry(yaml.SafeLoader("").construct_object(node, deep=True), where)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: of a date that there is not
        raise RecipeError(f"{where}: {getattr(error, 'problem', error)}") from None


def nearest(word: str, words: Iterable[str]) -> str:
    """Return '; did you mean X?' for the valid word nearest to a misspelt one, or an empty string."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
