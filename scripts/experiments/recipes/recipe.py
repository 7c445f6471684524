"""Recipes: what one training is, how it is decoded and how it is measured.

A recipe file of YAML holds the keys of ``Recipe``. Its sections ``train``, ``generate`` and ``eval_lm`` hold flags of
fairseq's commands, written with underscores. ``extends: FILE`` takes over another recipe file, whose values may be
replaced, or removed by null. Model sizes never stand in a recipe: they stand in the architecture. Paths, seed,
architecture and devices are the runner's. A wrong key or value is a RecipeError that names file and line.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from experiments.recipes.nodes import Entry, RecipeError, compose, file_beside, mapping, nearest
from experiments.system.checkout import ROOT

CONFIGS = ROOT / "configs"
PREPARATIONS = ROOT / "data-prep"  # the only folder whose scripts a recipe may name
FILE_NAME = re.compile(r"\w[\w.+-]*")  # of a corpus or a table: it is part of a path
MOST_EXTENDED = 20  # files in a chain of 'extends'
SECTIONS = ("train", "generate", "eval_lm")
# Keys whose mappings are merged name by name with those of the recipe that is extended.
MERGED = (*SECTIONS, "data", "paper", "sizes")
Flags = Mapping[str, Entry]
Layer = dict[str, Any]  # key → Entry; of the keys in MERGED name → Entry
T = TypeVar("T")


@dataclass(frozen=True)
class Data:
    """The corpus of a recipe.

    ``prepare``: the script that prepares it, with ``options`` ({folder}: the data's folder; {local}: the local copy,
    which otherwise follows as --local DIR); ``smoke``: its options for a mini corpus, where they differ. ``tests``:
    name → fairseq's subset of the test sets. ``variable``: environment variable with the folder of a local copy;
    ``local``: that folder's default, relative to the repository. ``lowercase``: score without case. ``bpe``: how
    subwords are joined, a key of generated.BPE_KINDS.
    """

    name: str
    prepare: str
    options: tuple[str, ...] = ()
    smoke: tuple[str, ...] | None = None
    tests: Mapping[str, str] = field(default_factory=lambda: {"test": "test"})
    variable: str = ""
    local: str = ""
    source: str = ""
    target: str = ""
    lowercase: bool = False
    bpe: str = "subword_nmt"

    @property
    def takes_folder(self) -> bool:
        """Whether the preparation can read a local copy."""
        return bool(self.local or self.variable) or any("{local}" in option for option in self.options)


@dataclass(frozen=True, eq=False)  # equal only to itself, and so fit for a cache
class Recipe:
    """One row of a table at one scale.

    ``metric`` is the one that is compared, ``paper`` the paper's numbers by metric; ``beside``: further metrics that
    are shown, each with the paper's metric whose number stands beside it. ``sizes`` are those of the model as it is
    built at full size, for estimates and for tests. The effective batch is ``gpus`` × max_tokens (or batch_size) ×
    update_freq on any number of GPUs. ``checkpoint``: the one that is measured, 'last' or 'best' on the validation set;
    ``average``: {last: N} or {best: N} checkpoints that are averaged instead. ``jobs``: trainings side by side on one
    GPU, ``threads``: of one training on a CPU, ``hardware``: 'cpu' or 'gpu'. ``expect_minutes``: of one training, for
    the estimate of the time left; at full scale it follows from ``sizes``. ``lead``: number of an article's first
    sentences that are its summary, without a model. ``probing``: 'pre-trained' or 'scratch', with trees in ``trees``.
    """

    where: str
    label: str = ""
    description: str = ""
    architecture: str = ""
    data: Data | None = None
    train: Flags = field(default_factory=dict)
    generate: Flags = field(default_factory=dict)
    eval_lm: Flags = field(default_factory=dict)
    metric: str = ""
    paper: Mapping[str, float] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (1,)
    threads: int = 1
    jobs: int = 1
    hardware: str = "gpu"
    gpus: int = 1
    checkpoint: str = "last"
    average: Mapping[str, int] = field(default_factory=dict)
    expect_minutes: float = 10.0
    lead: int = 0
    probing: str = ""
    trees: str = ""

    @property
    def corpus(self) -> Data:
        """The recipe's data, which every row of a table has."""
        assert self.data is not None, self.where
        return self.data

    def section(self, name: str) -> Flags:
        """Return the flags of 'train', 'generate' or 'eval_lm'."""
        return getattr(self, name)

    def flag(self, section: str, key: str, default: Any = None) -> Any:
        """Return the value of one flag, e.g. flag('train', 'max_update')."""
        entry = self.section(section).get(key)
        return default if entry is None else entry.value

    def with_flags(self, section: str, flags: Mapping[str, Any], where: str) -> Recipe:
        """Return this recipe with other values of these flags; None removes one. ``where`` is for errors."""
        old = {key: entry for key, entry in self.section(section).items() if key not in flags}
        new = {key: Entry(value, where) for key, value in flags.items() if value is not None}
        changed: dict[str, Any] = {section: {**old, **new}}
        return replace(self, **changed)


KEYS = tuple(f.name for f in fields(Recipe) if f.name != "where")
CHOICES = {"hardware": ("cpu", "gpu"), "checkpoint": ("last", "best"), "probing": ("", "pre-trained", "scratch")}
POSITIVE = ("gpus", "threads", "jobs", "lead")
KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", tuple: "a list"}


def read_layer(items: Mapping[str, Entry]) -> Layer:
    """Return the keys of a recipe, or of a part of one, as a layer for merge(). Raises RecipeError."""
    layer: Layer = {}
    for key, entry in items.items():
        if key not in KEYS:
            raise RecipeError(f"{entry.where}: unknown key {key!r}{nearest(key, KEYS)}")
        if key in MERGED and entry.value is not None:
            named = {name: each.plain() for name, each in mapping(entry, key).items()}
            if key in SECTIONS:  # hyphens become underscores, as in fairseq's own names of its flags
                named = {name.replace("-", "_"): each for name, each in named.items()}
            layer[key] = named
        else:
            layer[key] = entry.plain()
    return layer


def merge(base: Layer, top: Layer) -> Layer:
    """Return ``base`` with the values of ``top`` on it; null removes one. Raises RecipeError for null of nothing.

    The keys in MERGED are merged name by name; ``data`` only as long as it is the same corpus.
    """
    found = dict(base)
    for key, value in top.items():
        if isinstance(value, Entry):
            _put(found, key, value)
            continue
        named = dict(found.get(key, {}))
        if key == "data" and "name" in value and value["name"].value != getattr(named.get("name"), "value", None):
            named = {}
        for name, entry in value.items():
            _put(named, name, entry)
        found[key] = named
    return found


def _put(found: dict[str, Any], key: str, entry: Entry) -> None:
    if entry.value is not None:
        found[key] = entry
    elif found.pop(key, None) is None:
        raise RecipeError(f"{entry.where}: {key} has no value, and there is none to remove")


def read_file(path: Path, extended_by: tuple[Path, ...] = ()) -> Layer:
    """Return the layer of a recipe file, on that of the file that it extends. Raises RecipeError."""
    items = compose(path)
    base: Layer = {}
    if "extends" in items:
        entry = items.pop("extends")
        where, other = entry.where, file_beside(path, entry)
        if other is None:
            raise RecipeError(f"{where}: extends {entry.plain().value}, which is not there")
        if other in extended_by or other == path.resolve():
            raise RecipeError(f"{where}: extends itself")
        if len(extended_by) == MOST_EXTENDED:
            raise RecipeError(f"{where}: more than {MOST_EXTENDED} files extend each other")
        base = read_file(other, (*extended_by, path.resolve()))
    return merge(base, read_layer(items))


def make_recipe(layer: Layer, where: str) -> Recipe:
    """Return the recipe of a layer, with every value of the type that ``Recipe`` gives it. Raises RecipeError."""
    values = dict(layer)
    data = values.pop("data", None)
    sections = {key: values.pop(key, {}) for key in SECTIONS}
    for key in ("paper", "sizes"):
        if key in values:
            values[key] = Entry(values[key], where)
    found = _build(Recipe, values, where, {"where": where, **sections})
    if data is not None:
        found = replace(found, data=_build(Data, data, where, {}))
        _check_data(found.corpus, data)
    _check(found, values)
    return found


def _build(kind: type[T], entries: Mapping[str, Entry], where: str, given: Mapping[str, Any]) -> T:
    """Return a dataclass of these entries, each checked against the field's type. Raises RecipeError."""
    hints, values = get_type_hints(kind), dict(given)
    for key, entry in entries.items():
        if key not in hints:
            raise RecipeError(f"{entry.where}: unknown key {key!r}{nearest(key, hints)}")
        values[key] = typed(hints[key], key, entry)
    for each in fields(kind):  # type: ignore[arg-type]
        if each.default is MISSING and each.default_factory is MISSING and each.name not in values:
            raise RecipeError(f"{where}: {kind.__name__.lower()} needs the key {each.name!r}")
    return kind(**values)


def typed(hint: Any, key: str, entry: Entry) -> Any:
    """Return the value of an entry as its field's type has it. Raises RecipeError."""
    if isinstance(hint, types.UnionType):  # X | None
        hint = next(each for each in get_args(hint) if each is not type(None))
    value, origin = entry.value, get_origin(hint)
    if origin is tuple:
        inner = get_args(hint)[0]
        if not isinstance(value, list):
            raise RecipeError(f"{entry.where}: {key} must be a list, not {value!r}")
        return tuple(str(each) if inner is str else typed(inner, key, Entry(each, entry.where)) for each in value)
    if origin is not None:  # Mapping[str, …]
        inner = get_args(hint)[1]
        if not isinstance(value, dict):
            raise RecipeError(f"{entry.where}: {key} must be a mapping, not {value!r}")
        # Each value of a mapping that was merged name by name has a line of its own.
        entries = {str(n): v if isinstance(v, Entry) else Entry(v, entry.where) for n, v in value.items()}
        return {n: e.value if inner is Any else typed(inner, f"{key}: {n}", e) for n, e in entries.items()}
    fits = isinstance(value, (int, float) if hint is float else hint) and (hint is bool or not isinstance(value, bool))
    if not fits:
        raise RecipeError(f"{entry.where}: {key} must be {KINDS[hint]}, not {value!r}")
    return float(value) if hint is float else value


def _check_data(found: Data, entries: Mapping[str, Entry]) -> None:
    """Raise RecipeError for data that would be prepared by another program than data-prep's, or in another place."""
    if not FILE_NAME.fullmatch(found.name):
        raise RecipeError(
            f"{entries['name'].where}: name {found.name!r}: letters, digits, '.', '+', '-' and '_', please"
        )
    try:
        script = (ROOT / found.prepare).resolve()
        script.is_file()  # where there is none the preparation says so
    except (OSError, ValueError):  # a name that is too long, or has a NUL
        script = Path()
    if Path(found.prepare).is_absolute() or not script.is_relative_to(PREPARATIONS.resolve()):
        raise RecipeError(
            f"{entries['prepare'].where}: prepare {found.prepare!r}: a recipe runs scripts of data-prep/ alone; for "
            "own data give data-prep/prepare_parallel.sh or prepare_lm.sh (docs/own-data.md), or put your script there"
        )


def _check(found: Recipe, values: Mapping[str, Entry]) -> None:
    """Raise RecipeError for a value of the right type that means nothing."""

    def refuse(key: str, must: str) -> None:
        raise RecipeError(f"{values[key].where}: {key} must be {must}, not {values[key].value!r}")

    for key, choices in CHOICES.items():
        if getattr(found, key) not in choices:
            refuse(key, " or ".join(filter(None, choices)))
    for key in POSITIVE:
        if key in values and getattr(found, key) < 1:
            refuse(key, "a whole number from 1")
    if "average" in values and not (
        list(found.average) in (["last"], ["best"]) and all(count > 0 for count in found.average.values())
    ):
        refuse("average", "{last: N} or {best: N}")
    if "seeds" in values and (not found.seeds or len(set(found.seeds)) < len(found.seeds)):
        refuse("seeds", "a list of different whole numbers")


def load_recipe(path: str | Path) -> Recipe:
    """Return the recipe of a file (expand() checks its flags). Raises RecipeError."""
    return make_recipe(read_file(Path(path)), str(path))
