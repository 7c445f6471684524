"""Tables: one file of configs/<paper>/ with its rows, and the recipe of each row at each scale.

    # Table 4 of Cui et al. 2019: one kind of head beside global ones.
    extends: base/iwslt14.yaml                     # full scale: data, training, decoding, protocol
    small: ../scales/small/multi30k_de_en.yaml     # small scale: the same on two CPU cores
    sample: ../scales/sample/iwslt14_de_en_cpu.yaml  # sample scale, where there is one: a part of the paper's data
    baseline: transformer                          # the row that the others are tested against
    rows:
      transformer: {same_as: table2/transformer}
      local: {label: + Local Attention, architecture: …, train: {mma_heads: "global:1,local:3"}, paper: {…}}

Keys of a recipe that stand in the table hold for all rows, those of a row for that row at every scale. Keys under
``full`` (of the table or of a row) hold at full and smoke scale, keys under ``small`` at small and sample scale, keys
under ``sample`` at sample scale alone and over those under ``small``. At small scale a row has the ``_small`` size of
its architecture, at sample scale the ``_medium`` one. A row may have its own ``extends``, its own ``small: {extends:
FILE}``, and its own ``baseline``: a row of this table, TABLE/ROW of the same paper, or null. ``same_as`` begins a row
with all that another one has, the files of its scales included, but for its baseline. ``sizes`` are those of the full
scale. ``quoted`` holds the systems that the paper quotes from others and did not train: ``LABEL: {METRIC: NUMBER}``;
they are no rows.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from experiments.recipes.nodes import Entry, RecipeError, compose, file_beside, mapping, natural, nearest, read_text
from experiments.recipes.recipe import (
    CONFIGS,
    FILE_NAME,
    KEYS,
    Layer,
    Recipe,
    make_recipe,
    merge,
    read_file,
    read_layer,
    typed,
)

SCALES = ("smoke", "small", "sample", "full")
LAYERS = {"full": ("full",), "small": ("small",), "sample": ("small", "sample")}  # what holds at a scale, in order
ROW_NAME = re.compile(r"[a-z0-9][a-z0-9_]*", re.ASCII)  # it stands in commands and in results
PAPERS = {"mma": "MMA", "csan": "CSAN", "man": "MAN", "diffwin": "DiffWin", "mgsa": "MG-SA"}
NOT_PAPERS = ("base", "scales")
ROW_KEYS = (*KEYS, *LAYERS, "extends", "same_as", "baseline")
TABLE_KEYS = (*KEYS, *LAYERS, "extends", "baseline", "rows", "quoted")


read_base = functools.cache(read_file)  # once for all rows


@dataclass(frozen=True)
class RowSource:
    """What a row is made of: the files that it extends at each scale, and layers on top of them, in order."""

    where: str
    extends: Mapping[str, Path | None]  # by scale
    layers: tuple[Layer, ...] = ()  # at every scale
    own: Mapping[str, tuple[Layer, ...]] = field(default_factory=lambda: dict.fromkeys(LAYERS, ()))

    def scales(self) -> list[str]:
        """Return the scales at which the row can be run."""
        return [scale for scale in SCALES if self.extends["full" if scale == "smoke" else scale]]

    def layer(self, scale: str) -> Layer:
        """Return all values at a scale of LAYERS. Raises RecipeError."""
        base = self.extends[scale]
        assert base is not None, self.where
        found = read_base(base)
        for layer in (*self.layers, *self.own_layers(scale)):
            found = merge(found, layer)
        if scale != "full":
            found.pop("sizes", None)
        return found

    def own_layers(self, scale: str) -> list[Layer]:
        """Return the layers that do not hold at every scale, but at this one."""
        return [layer for name in LAYERS[scale] for layer in self.own[name]]


@dataclass(frozen=True, eq=False)
class Table:
    """One table file."""

    path: Path
    title: str  # its first comment
    sources: Mapping[str, RowSource]
    baselines: Mapping[str, tuple[str, str] | None]  # row → (table, row) of the same paper
    quoted: Mapping[str, Mapping[str, float]]  # label → metric → number, of systems that the paper did not train

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def paper(self) -> str:
        return self.path.parent.name

    def rows(self, scale: str) -> list[str]:
        """Return the names of the rows that there are at a scale, baselines first."""
        names = [name for name, source in self.sources.items() if scale in source.scales()]
        return sorted(names, key=lambda name: self.baselines[name] is not None)

    @functools.cache  # noqa: B019  (tables are few, and read once)
    def recipe(self, row: str, scale: str) -> Recipe:
        """Return the recipe of a row at a scale of LAYERS, with the row's own architecture. Raises RecipeError."""
        source = self.sources[row]
        found = make_recipe(source.layer(scale), source.where)
        for key in ("label", "metric", "data", *(() if found.lead else ("architecture",))):
            if not getattr(found, key):
                raise RecipeError(f"{source.where}: the row {row} needs the key {key!r}")
        if not found.lead and not isinstance(found.flag("train", "max_update"), int):
            raise RecipeError(f"{source.where}: train needs max_update (beside max_epoch: for the time left)")
        return found

    def baseline(self, row: str) -> tuple[Table, str] | None:
        """Return the table and the row that a row is tested against; None without one. Raises RecipeError."""
        found = self.baselines[row]
        if found is None:
            return None
        table = self if found[0] == self.name else load_table(self.path.with_name(f"{found[0]}.yaml"))
        if found[1] not in table.sources:
            known = ", ".join(table.sources)
            raise RecipeError(f"{self.sources[row].where}: baseline {'/'.join(found)}: {table.path} has {known}")
        return table, found[1]


@functools.cache
def load_table(path: Path, asked_by: tuple[Path, ...] = ()) -> Table:
    """Return the table of a file, its structure checked (recipe() and expand() check the rest). Raises RecipeError.

    ``asked_by``: tables that are being read, each with a row that begins as one of the next.
    """
    items = compose(path)
    files, common, own = _parts(path, items, TABLE_KEYS)
    if "rows" not in items:
        raise RecipeError(f"{path}: a table needs the key 'rows'")
    rows = mapping(items.pop("rows"), "rows")
    default = _baseline(path, items)
    defaults = RowSource(str(path), files, (common,), {scale: (own[scale],) for scale in own})
    sources: dict[str, RowSource] = {}
    baselines: dict[str, tuple[str, str] | None] = {}
    for name, row in rows.items():
        if not ROW_NAME.fullmatch(name):
            raise RecipeError(f"{row.where}: {name}: the name of a row has lower-case letters, digits and '_'")
        row_items = mapping(row, f"the row {name}")
        files_of_row, layer, own_of_row = _parts(path, row_items, ROW_KEYS)
        base = defaults
        if "same_as" in row_items:
            base = _same_as(row_items["same_as"], sources, defaults, (*asked_by, path))
        extends = {scale: files_of_row[scale] or base.extends[scale] for scale in files}
        layers = {scale: (*base.own[scale], own_of_row[scale]) for scale in own}
        sources[name] = RowSource(row.where, extends, (*base.layers, layer), layers)
        baselines[name] = _baseline(path, row_items) if "baseline" in row_items else default
        if baselines[name] == (path.stem, name):
            baselines[name] = None
    quoted = typed(Mapping[str, Mapping[str, float]], "quoted", items["quoted"]) if "quoted" in items else {}
    table = Table(path, _title(path), sources=sources, baselines=baselines, quoted=quoted)
    for name, baseline in baselines.items():
        if baseline is not None and baseline[0] == path.stem and baseline[1] not in sources:
            raise RecipeError(
                f"{sources[name].where}: baseline {baseline[1]}: there is no such row{nearest(baseline[1], sources)}"
            )
    return table


def _same_as(
    entry: Entry, before: Mapping[str, RowSource], defaults: RowSource, being_read: tuple[Path, ...]
) -> RowSource:
    """Return the source of the row that a row begins with; of another table with this table's common values on it."""
    where, path = entry.where, being_read[-1]
    table, _, row = str(entry.value).rpartition("/")
    if not table:
        if row not in before:
            raise RecipeError(f"{where}: same_as {row}: no such row stands above{nearest(row, before)}")
        return before[row]
    _need_table_name(table, where)
    other = path.with_name(f"{table}.yaml")
    if not other.is_file():
        raise RecipeError(f"{where}: same_as {entry.value}: there is no {other}")
    if other in being_read:
        names = " to ".join(each.stem for each in (*being_read[being_read.index(other) :], other))
        raise RecipeError(f"{where}: same_as {entry.value}: goes in a circle, from {names}")
    sources = load_table(other, being_read).sources
    if row not in sources:
        raise RecipeError(f"{where}: same_as {entry.value}: {other} has no row {row}{nearest(row, sources)}")
    found = sources[row]
    own = {scale: (*found.own[scale], *defaults.own[scale]) for scale in found.own}
    return replace(found, layers=(*found.layers, *defaults.layers), own=own)


def _parts(
    path: Path, items: Mapping[str, Entry], known: tuple[str, ...]
) -> tuple[dict[str, Path | None], Layer, dict[str, Layer]]:
    """Return of a table or a row the files that it extends by scale, its layer, and its layers of single scales."""
    for key, entry in items.items():
        if key not in known:
            raise RecipeError(f"{entry.where}: unknown key {key!r}{nearest(key, known)}")
    files: dict[str, Path | None] = {**dict.fromkeys(LAYERS), "full": _file(path, items, "extends")}
    own: dict[str, Layer] = {scale: {} for scale in LAYERS}
    for scale in LAYERS:
        parts = items[scale].value if scale in items else {}
        if isinstance(parts, dict):
            files[scale] = _file(path, parts, "extends") or files[scale]
            own[scale] = read_layer({key: entry for key, entry in parts.items() if key != "extends"})
        else:
            files[scale] = _file(path, items, scale)
    return files, read_layer({key: entry for key, entry in items.items() if key in KEYS}), own


def _file(path: Path, items: Mapping[str, Entry], key: str) -> Path | None:
    """Return the recipe file that stands under a key. Raises RecipeError where it is not there."""
    if key not in items:
        return None
    found = file_beside(path, items[key])
    if found is None:
        raise RecipeError(f"{items[key].where}: {key} {items[key].plain().value}: there is no such file")
    return found


def _baseline(path: Path, items: Mapping[str, Entry]) -> tuple[str, str] | None:
    entry = items.get("baseline")
    if entry is None or entry.value is None:
        return None
    table, _, row = str(entry.plain().value).rpartition("/")
    _need_table_name(table, entry.where)
    return table or path.stem, row


def _need_table_name(table: str, where: str) -> None:
    """Raise RecipeError for a name that is no file's beside the table; empty is this table."""
    if table and not FILE_NAME.fullmatch(table):
        raise RecipeError(f"{where}: {table!r} is no name of a table beside this one")


def _title(path: Path) -> str:
    """Return the first comment of a file as one line."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), read_text(path).splitlines())
    return " ".join(line.removeprefix("#").strip() for line in comment)


def papers(configs: Path = CONFIGS) -> list[str]:
    """Return the folders of configs/ that have tables."""
    found = {path.parent.name for path in configs.glob("*/*.yaml")}
    return sorted(found - set(NOT_PAPERS))


def tables_of(paper: str, configs: Path = CONFIGS) -> list[str]:
    """Return the tables and figures of a paper, tables before figures, others last."""
    names = sorted((path.stem for path in (configs / paper).glob("*.yaml")), key=natural)
    return sorted(names, key=lambda name: (not name.startswith("table"), not name.startswith("fig")))


def find_table(paper: str, table: str, configs: Path = CONFIGS) -> Table:
    """Return a table by its names. Raises RecipeError."""
    if paper not in papers(configs):
        raise RecipeError(f"{paper}: no such paper; there are {', '.join(papers(configs))}")
    if table not in tables_of(paper, configs):
        raise RecipeError(f"{paper} {table}: no such table; {paper} has {', '.join(tables_of(paper, configs))}")
    return load_table(configs / paper / f"{table}.yaml")
