"""YAML files as values that know their lines, for errors that name file and line.

Aliases (ten lines of them expand to billions of values), tags, repeated keys and files above MOST_BYTES are refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fairseq_localattn.errors import UsageError

MOST_BYTES = 1_000_000  # the largest recipe has some ten thousand


class RecipeError(UsageError):
    """A recipe that cannot be used; the message names file and line, and is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


@dataclass(frozen=True)
class Entry:
    """A value of a recipe and its place, 'file:line'. The value of a mapping is a dict of entries."""

    value: Any
    where: str

    def plain(self) -> Entry:
        """Return the entry with a value that holds no further entries."""
        return Entry(_plain(self.value), self.where)


def _plain(value: Any) -> Any:
    return {key: _plain(entry.value) for key, entry in value.items()} if isinstance(value, dict) else value


class _Loader(yaml.SafeLoader):
    """SafeLoader without aliases and tags."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            said = f"*{event.anchor}: no aliases in a recipe; write the value again"
            raise RecipeError(f"{_place(self.path, event)}: {said}")
        if getattr(event, "tag", None):
            raise RecipeError(f"{_place(self.path, event)}: {event.tag}: no tags in a recipe")
        return super().compose_node(parent, index)


def read_text(path: Path) -> str:
    """Return the text of a YAML file, without a byte-order mark. Raises RecipeError."""
    try:
        if not path.is_file():
            why = "it is no file" if path.exists() else "there is no such file"
            raise RecipeError(f"{path}: cannot be read: {why}")
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error}") from None
    if len(data) > MOST_BYTES:
        raise RecipeError(f"{path}: larger than {MOST_BYTES:,} bytes: this is no recipe")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RecipeError(f"{path}:{line}: cannot be read: invalid UTF-8") from None


def compose(path: Path) -> dict[str, Entry]:
    """Return the mapping that a YAML file holds, with the place of each value. Raises RecipeError."""
    text = read_text(path)
    try:
        root = _Loader(path, text).get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise RecipeError(f"{path}: a recipe is a mapping, one 'key: value' a line")
        return _value(path, root)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise RecipeError(f"{path}:{line}: the character U+{error.character:04X} cannot stand in YAML") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise RecipeError(f"{where}: not valid YAML: {getattr(error, 'problem', error)}") from None
    except RecursionError:
        raise RecipeError(f"{path}: brackets or lists are nested too deeply") from None


def _value(path: Path, node: yaml.Node) -> Any:
    """Return the value of a node: a dict of entries, a list or a scalar. Raises RecipeError."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain(_value(path, child)) for child in node.value]
    if not isinstance(node, yaml.MappingNode):
        try:
            return yaml.SafeLoader("").construct_object(node)
        except ValueError as error:  # of a date that there is not
            raise RecipeError(f"{_place(path, node)}: {error}") from None
    found: dict[str, Entry] = {}
    for key, child in node.value:
        where = _place(path, key)
        if not isinstance(key, yaml.ScalarNode):
            raise RecipeError(f"{where}: a key must be a word")
        if key.value in found:
            line = found[key.value].where.rpartition(":")[2]
            raise RecipeError(f"{where}: {key.value} was already given on line {line}")
        found[str(key.value)] = Entry(_value(path, child), where)
    return found


def _place(path: Path, node: yaml.Node | yaml.Event) -> str:
    """Return 'file:line' of a node."""
    assert node.start_mark is not None
    return f"{path}:{node.start_mark.line + 1}"


def mapping(entry: Entry, what: str) -> dict[str, Entry]:
    """Return the entries of a mapping; ``what`` names it in an error. Raises RecipeError."""
    if not isinstance(entry.value, dict):
        raise RecipeError(f"{entry.where}: {what} must be a mapping, one 'key: value' a line")
    return dict(entry.value)


def file_beside(path: Path, entry: Entry) -> Path | None:
    """Return the file that an entry names, from the folder of ``path``; None where there is none."""
    try:
        found = (path.parent / str(entry.value)).resolve()
        return found if found.is_file() else None
    except (OSError, ValueError):  # a name that is too long, or has a NUL
        return None


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names as one reads them: window_3 before window_11."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def nearest(word: str, words: Iterable[str]) -> str:
    """Return '; did you mean X?' for the valid word nearest to a misspelt one, or an empty string."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
