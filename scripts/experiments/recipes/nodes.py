"""YAML as nodes that know their lines, for errors that name file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names file and line."""


def compose(path: Path) -> yaml.MappingNode:
    """The mapping that a YAML file holds. Raises RecipeError."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise RecipeError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(root, yaml.MappingNode):
        raise RecipeError(f"{path}: a recipe is a mapping, with a section train")
    return root


def items_of(path: Path, node: yaml.MappingNode, *, names: bool = False) -> dict[str, tuple[yaml.Node, int]]:
    """Key → value and line. Hyphens in a key become underscores, as in fairseq's flags, but not in `names`."""
    found: dict[str, tuple[yaml.Node, int]] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = str(key_node.value) if names else str(key_node.value).replace("-", "_")
        if key in found:
            raise RecipeError(f"{path}:{line}: {key} was already given on line {found[key][1]}")
        found[key] = (value_node, line)
    return found


def value_of(path: Path, node: yaml.Node) -> Any:
    """The Python value of a node. Raises RecipeError."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except yaml.YAMLError as error:
        raise RecipeError(f"{path}:{node.start_mark.line + 1}: {getattr(error, 'problem', error)}") from None
