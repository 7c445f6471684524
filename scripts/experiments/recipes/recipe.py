"""Recipes: one YAML file holds one job's settings; this module reads, checks and expands them into fairseq's argv.

A recipe has the sections `train` (flags of fairseq-train) and `generate` or `eval_lm` (of fairseq-generate, of
fairseq-eval-lm), written with underscores, and the keys of META_KEYS, which say what the job is. `extends: FILE` takes
over another recipe, whose values it may replace, or remove by null. Model sizes never stand in a recipe: they stand in
the architecture. What only the runner can know (paths, seed, architecture) is reserved. A wrong key or value is a
RecipeError that names file and line. `systems` gives a name to an architecture with further flags of fairseq-train,
each replacing that of `train`:

    systems:
      mma_window_2: {arch: transformer_mma_small, mma_window: 2}
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from experiments.recipes.nodes import RecipeError, compose, items_of, value_of

ROOT = Path(__file__).resolve().parents[3]
USER_DIR = ROOT / "fairseq_localattn"

META_KEYS = {
    "description": str,
    "data": dict,  # see DATA_KEYS
    "architectures": list,  # of a comparison
    "systems": dict,  # of a comparison, beside the architectures: see Recipe.system
    "seeds": list,
    "threads": int,  # CPU threads of one run
    "jobs": int,  # runs side by side on a GPU
    "hardware": str,  # cpu or gpu
    "checkpoint": str,  # that is measured: last (without the key), or best on the validation set
    # of one training, on the hardware named in the recipe; only for the estimate of the time left
    "expect_minutes": (int, float),
    # of a row of a paper's table (scripts/table.py)
    "label": str,  # what the table calls it
    "architecture": str,
    "baseline": str,  # another row, beside this file, that it is tested against
    "metric": str,  # the paper's: see row_measures.py
    "paper": dict,  # what the paper reports: metric → number. In a comparison: system → {label, score}
    "gpus": int,  # the paper's: gpus x max_tokens x update_freq tokens make a batch, on any number of GPUs
    "average": dict,  # {last: N} or {best: N} checkpoints that are averaged; else `checkpoint`
    "sizes": dict,  # of the model as it is built, for reading; tests hold it to that
    "lead": int,  # no model: the first sentences of the article are its summary
    "probing": dict,  # see row_measures.Probing
}
# Key by key with those of the recipe that is extended; data only as long as they are the same corpus.
MERGED = ("data", "paper", "sizes")
KIND_NAMES: dict[Any, str] = {
    str: "text", dict: "a mapping", list: "a list", int: "a whole number", float: "a number",
}  # fmt: skip
SECTIONS = ("train", "generate", "eval_lm")
DATA_KEYS = {
    "name",
    "prepare",  # script that writes the data folder
    "options",  # of that script
    "smoke",  # the same for a mini corpus (scripts/table.py --smoke)
    "tests",  # the test sets' names, where there are several: name → fairseq's subset
    "variable",  # environment variable with a folder that holds the corpus
    "local",  # folder with a copy of the corpus, used where it exists and the variable is not set
    "source",
    "target",
    "lowercase",  # score without case
    "bpe",  # how to join sub-words: see score.BPE_KINDS
}
RESERVED = {
    "data", "arch", "user_dir", "seed", "save_dir", "path", "results_path", "log_file", "log_format",
    "source_lang", "target_lang",
}  # fmt: skip
SIZE_KEY = re.compile(r"(encoder|decoder)_(embed_dim|ffn_embed_dim|layers|attention_heads|input_dim|output_dim)")
SYSTEM_NAME = re.compile(r"\w[\w.-]*", re.ASCII)  # it begins the names of folders


def command_of(section: str) -> str:
    """The command whose flags a section has."""
    return "fairseq-" + section.replace("_", "-")


@dataclass(frozen=True)
class Entry:
    """A value of a recipe, and where it stands: 'file:line'."""

    value: Any
    where: str


@dataclass(frozen=True, eq=False)  # equal only to itself, and so fit for a cache
class Recipe:
    """One YAML file. `meta` holds META_KEYS; `sections` maps train and generate to {flag with underscores: Entry}.

    The recipe of a system (see system()) has one section more, `system`, with the Entry `arch`.
    """

    path: Path
    meta: dict[str, Any]
    sections: dict[str, dict[str, Entry]]

    @property
    def name(self) -> str:
        return self.path.stem

    def get(self, key: str, default: Any = None) -> Any:
        """The meta value `key`, or the default where the recipe does not give it."""
        return self.meta.get(key, default)

    def flag(self, section: str, key: str, default: Any = None) -> Any:
        """The value of one flag of a section, e.g. flag('train', 'max_update')."""
        entry = self.sections.get(section, {}).get(key)
        return default if entry is None else entry.value

    def with_flags(self, section: str, flags: Mapping[str, Any], where: str) -> Recipe:
        """This recipe with other values of these flags; None removes one. `where` is for errors about them."""
        old = {key: entry for key, entry in self.sections.get(section, {}).items() if key not in flags}
        new = {key: Entry(value, where) for key, value in flags.items() if value is not None}
        return replace(self, sections={**self.sections, section: {**old, **new}})

    def system(self, name: str) -> tuple[str, Recipe]:
        """Architecture and recipe of a system: this recipe, with the system's flags in its section train.

        Any name that is not in `systems` stands for the architecture of that name, and this recipe as it is.
        """
        entries = self.get("systems", {}).get(name)
        if entries is None:
            return name, self
        flags = {key: entry for key, entry in entries.items() if key != "arch"}
        # The section `system` is there for the settings' hash: the same flags with another architecture are others.
        further = {"train": {**self.sections["train"], **flags}, "system": {"arch": entries["arch"]}}
        return entries["arch"].value, replace(self, sections={**self.sections, **further})


def load_recipe(path: str | Path) -> Recipe:
    """Reads a recipe and checks its structure (not its flags: expand() does). Raises RecipeError."""
    meta, sections = _load(Path(path), ())
    if "train" not in sections:
        raise RecipeError(f"{path}: the section 'train' is missing")
    return Recipe(Path(path), meta, sections)


def _load(path: Path, extended_by: tuple[Path, ...]) -> tuple[dict[str, Any], dict[str, dict[str, Entry]]]:
    """Meta values and sections of a recipe, on top of those of the recipe that it extends."""
    root = compose(path)
    items = items_of(path, root)
    meta: dict[str, Any] = {}
    sections: dict[str, dict[str, Entry]] = {}
    if "extends" in items:
        node, line = items.pop("extends")
        base = (path.parent / str(node.value)).resolve()
        if base in extended_by or base == path.resolve():
            raise RecipeError(f"{path}:{line}: extends itself")
        if not base.is_file():
            raise RecipeError(f"{path}:{line}: extends {node.value}, which is not there")
        meta, sections = _load(base, (*extended_by, path.resolve()))
    for key, (node, line) in items.items():
        if key in SECTIONS:
            holds = f"{key} must hold flags of {command_of(key)}, one 'flag: value' a line"
            sections[key] = _entries(path, holds, node, line, sections.get(key, {}))
        elif key == "systems":
            meta[key] = _systems(path, node, line, meta.get(key, {}))
        elif key in META_KEYS and isinstance(node, yaml.ScalarNode) and value_of(path, node) is None:
            if meta.pop(key, None) is None:
                raise RecipeError(f"{path}:{line}: {key} has no value, and there is none to remove")
        elif key in META_KEYS:
            value = _meta_value(path, key, node, line)
            old = meta.get(key, {}) if key in MERGED else {}
            if key in MERGED and not ("name" in value and value["name"] != old.get("name")):
                value = {name: v for name, v in {**old, **value}.items() if v is not None}  # null removes a key
            meta[key] = value
        else:
            raise RecipeError(f"{path}:{line}: unknown key {key!r}{nearest(key, [*META_KEYS, *SECTIONS, 'extends'])}")
    return meta, sections


def _systems(path: Path, node: yaml.Node, line: int, base: dict[str, dict[str, Entry]]) -> dict[str, dict[str, Entry]]:
    """{name: {'arch' or flag: Entry}}, on top of those of the recipe that is extended; null removes a system."""
    if not isinstance(node, yaml.MappingNode):
        raise RecipeError(f"{path}:{line}: systems must hold one 'name: {{arch: ARCHITECTURE, flag: value}}' a line")
    systems = dict(base)
    for name, (child, at) in items_of(path, node, names=True).items():
        where = f"{path}:{at}: system {name}"
        if not SYSTEM_NAME.fullmatch(name):
            raise RecipeError(f"{where}: its name may have letters, digits, '_', '.' and '-', the last two not first")
        if isinstance(child, yaml.ScalarNode) and value_of(path, child) is None:
            if systems.pop(name, None) is None:
                raise RecipeError(f"{where} has no value, and there is none to remove")
            continue
        holds = f"system {name} must hold its arch and flags of fairseq-train: {{arch: ARCHITECTURE, flag: value}}"
        entries = _entries(path, holds, child, at, {})
        if "arch" not in entries or not isinstance(entries["arch"].value, str):
            raise RecipeError(f"{where} needs an architecture: {{arch: ARCHITECTURE, flag: value}}")
        if "max_update" in entries:
            raise RecipeError(f"{entries['max_update'].where}: all systems are compared after the max_update of train")
        systems[name] = entries
    return systems


def _entries(path: Path, holds: str, node: yaml.Node, line: int, base: dict[str, Entry]) -> dict[str, Entry]:
    """Flags of a mapping on top of others; null removes one. `holds` says what must stand there, for the error."""
    if not isinstance(node, yaml.MappingNode):
        raise RecipeError(f"{path}:{line}: {holds}")
    entries = dict(base)
    for flag, (child, at) in items_of(path, node).items():
        value = value_of(path, child)
        if value is not None:
            entries[flag] = Entry(value, f"{path}:{at}")
        elif entries.pop(flag, None) is None:
            raise RecipeError(f"{path}:{at}: {flag} has no value, and there is none to remove")
    return entries


def _meta_value(path: Path, key: str, node: yaml.Node, line: int) -> Any:
    value = value_of(path, node)
    kind: Any = META_KEYS[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        names = " or ".join(KIND_NAMES[k] for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise RecipeError(f"{path}:{line}: {key} must be {names}, not {value!r}")
    if key == "data" and isinstance(node, yaml.MappingNode):
        for name, (_, at) in items_of(path, node).items():
            if name not in DATA_KEYS:
                raise RecipeError(f"{path}:{at}: unknown key {name!r} in data{nearest(name, DATA_KEYS)}")
    for name, choices in (("hardware", ("cpu", "gpu")), ("checkpoint", ("last", "best"))):
        if key == name and value not in choices:
            raise RecipeError(f"{path}:{line}: {key} must be {' or '.join(choices)}, not {value!r}")
    if key == "average" and not (list(value) in (["last"], ["best"]) and _count(next(iter(value.values())))):
        raise RecipeError(f"{path}:{line}: average must be {{last: N}} or {{best: N}}, not {value!r}")
    if key in ("gpus", "lead") and not _count(value):
        raise RecipeError(f"{path}:{line}: {key} must be a whole number from 1, not {value!r}")
    return value


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def nearest(word: str, words: Any) -> str:
    """'; did you mean X?' for the valid word nearest to a misspelt one, or an empty string."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def expand(recipe: Recipe, section: str, *, arch: str) -> list[str]:
    """The flags of one section as fairseq's argv, checked with fairseq's own parser, the architecture's flags included.

    The result holds neither the data folder nor what RESERVED names: the caller adds those. Raises RecipeError for an
    unknown flag, a model size, a reserved flag, or a value that the parser refuses.
    """
    if section not in SECTIONS:
        raise RecipeError(f"no section {section!r}: the sections are {', '.join(SECTIONS)}")
    entries = recipe.sections.get(section, {})
    for key, entry in entries.items():
        where = entry.where
        if key in RESERVED:
            raise RecipeError(f"{where}: {key} is set by the runner, not by a recipe")
        if SIZE_KEY.fullmatch(key):
            raise RecipeError(
                f"{where}: {key} is a model size: sizes stand in the architecture ({arch}), not in a recipe"
            )
    fixed = ["DATA", "--user-dir", str(USER_DIR)] + (["--arch", arch] if section == "train" else ["--path", "MODEL"])
    actions = _fairseq_actions(recipe, section, fixed)
    argv: list[str] = []
    places: dict[str, str] = {}
    for key, entry in entries.items():
        option = "--" + key.replace("_", "-")
        action = actions.get(option) or actions.get("--" + key)
        if action is None:
            names = [name[2:].replace("-", "_") for name in actions if name.startswith("--")]
            raise RecipeError(
                f"{entry.where}: {command_of(section)} has no flag {key!r} for {arch}{nearest(key, names)}"
            )
        option = option if option in actions else "--" + key
        argv += _flag_argv(entry.where, option, action, entry.value)
        places[option] = entry.where
    _check_values(recipe, section, fixed + argv, places)
    return argv


def _flag_argv(where: str, option: str, action: argparse.Action, value: Any) -> list[str]:
    """One flag: a switch by itself, several values one by one, a list where fairseq evaluates one as '[a, b]'."""
    if action.nargs == 0:  # a switch
        if not isinstance(value, bool):
            raise RecipeError(f"{where}: {option} is a switch: give true or false, not {value!r}")
        turns_on = getattr(action, "const", True) is not False
        return [option] if value is turns_on else []
    if value is None or isinstance(value, bool) and not _is_boolean_value(action):
        raise RecipeError(f"{where}: {option} needs a value, not {value!r}")
    if isinstance(value, list) and (action.nargs in ("+", "*") or isinstance(action.nargs, int)):
        return [option, *map(str, value)]
    if isinstance(value, (list, dict)):
        return [option, repr(value)]
    # A value such as -inf would be read as a flag by itself.
    return [f"{option}={value}"] if str(value).startswith("-") else [option, str(value)]


def _is_boolean_value(action: argparse.Action) -> bool:
    return getattr(action.type, "__name__", "") in ("eval_bool", "str_to_bool", "bool")


def _parser(section: str) -> argparse.ArgumentParser:
    from fairseq import options

    # get_parser reads sys.argv for --user-dir; the import below has done that already.
    if section == "eval_lm":
        return options.get_eval_lm_parser()
    return options.get_training_parser() if section == "train" else options.get_generation_parser()


class RefusedError(Exception):
    pass


def _parse(
    section: str, argv: list[str], *, known: bool, capture: Callable[[argparse.ArgumentParser], None] | None = None
) -> None:
    """fairseq's own two-pass parsing; raises RefusedError with the parser's message instead of leaving the process."""
    from fairseq import options, utils

    utils.import_user_module(argparse.Namespace(user_dir=argv[argv.index("--user-dir") + 1]))
    parser = _parser(section)

    def refuse(message: str) -> None:
        raise RefusedError(message)

    parser.error = refuse  # type: ignore[method-assign,assignment]
    with contextlib.redirect_stderr(io.StringIO()):
        options.parse_args_and_arch(parser, input_args=argv, parse_known=known, modify_parser=capture)


def _fairseq_actions(recipe: Recipe, section: str, fixed: list[str]) -> dict[str, argparse.Action]:
    """All flags that fairseq knows for this architecture and the task, criterion, ... that the section chooses."""
    from fairseq.registry import REGISTRIES

    entries = recipe.sections.get(section, {})
    chosen: list[str] = []
    places: dict[str, str] = {}
    for key in ("task", *REGISTRIES):
        if key in entries:
            option = "--" + key.replace("_", "-")
            chosen += [option, str(entries[key].value)]
            places[option] = entries[key].where
    found: dict[str, argparse.Action] = {}
    try:
        _parse(section, fixed + chosen, known=True, capture=lambda parser: found.update(parser._option_string_actions))
    except RefusedError as error:
        raise _at_line(recipe, section, str(error), places) from None
    return found


def _check_values(recipe: Recipe, section: str, argv: list[str], places: dict[str, str]) -> None:
    try:
        _parse(section, argv, known=False)
    except (RefusedError, ValueError, SyntaxError, NameError) as error:
        raise _at_line(recipe, section, str(error), places) from None


def _at_line(recipe: Recipe, section: str, message: str, places: dict[str, str]) -> RecipeError:
    """The error at the line of a flag that the message names; else at that of the system, or the file."""
    named = re.findall(r"--[\w-]+", message)
    system = recipe.sections.get("system")
    otherwise = system["arch"].where if system else recipe.path
    where = next((places[option] for option in named if option in places), otherwise)
    return RecipeError(f"{where}: {command_of(section)}: {message}")
