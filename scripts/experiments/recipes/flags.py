"""Sections of a recipe as the argv of fairseq's commands, checked by fairseq's own parsers."""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import re
from collections.abc import Callable, Mapping
from typing import Any

from experiments.recipes.nodes import Entry, RecipeError, nearest
from experiments.recipes.recipe import Recipe
from experiments.system.checkout import USER_DIR

RESERVED = {
    "data", "arch", "user_dir", "seed", "save_dir", "path", "results_path", "log_file", "log_format",
    "source_lang", "target_lang",
}  # fmt: skip
SIZE_KEY = re.compile(r"(encoder|decoder)_(embed_dim|ffn_embed_dim|layers|attention_heads|input_dim|output_dim)")


def command_of(section: str) -> str:
    """Return the command whose flags a section has."""
    return "fairseq-" + section.replace("_", "-")


@functools.lru_cache(maxsize=256)  # once for all seeds
def expand(recipe: Recipe, section: str, only: frozenset[str] | None = None) -> tuple[str, ...]:
    """Return the flags of one section as fairseq's argv, checked by fairseq's parser with the architecture's flags.

    The result holds neither the data folder nor what RESERVED names: the caller adds those. ``only``: the names of the
    flags that are returned, all by default. Raises RecipeError for an unknown flag, a model size, a reserved flag, or a
    value that the parser refuses.
    """
    entries, arch = recipe.section(section), recipe.architecture
    for key, entry in entries.items():
        if key in RESERVED:
            raise RecipeError(f"{entry.where}: {key} is set by the runner, not by a recipe")
        if SIZE_KEY.fullmatch(key):
            why = f"sizes stand in the architecture ({arch}), not in a recipe"
            raise RecipeError(f"{entry.where}: {key} is a model size: {why}")
    fixed = ["DATA", "--user-dir", str(USER_DIR)] + (["--arch", arch] if section == "train" else ["--path", "MODEL"])
    actions = _fairseq_actions(recipe, section, fixed)
    argv: list[str] = []
    found: list[str] = []
    places: dict[str, Entry] = {}
    for key, entry in entries.items():
        option = next((name for name in ("--" + key.replace("_", "-"), "--" + key) if name in actions), None)
        if option is None:
            close = nearest(key, [name[2:].replace("-", "_") for name in actions if name.startswith("--")])
            raise RecipeError(f"{entry.where}: {command_of(section)} has no flag {key!r} for {arch}{close}")
        words = _flag_argv(entry.where, option, actions[option], entry.value)
        argv += words
        found += words if only is None or key in only else []
        places[option] = entry
    try:
        _parse(section, fixed + argv, known=False)
    except (RefusedError, ValueError, SyntaxError, NameError) as error:
        raise _at_line(recipe, section, str(error), places) from None
    return tuple(found)


def _flag_argv(where: str, option: str, action: argparse.Action, value: Any) -> list[str]:
    """Return one flag: a switch by itself, several values one by one, a list where fairseq wants '[a, b]'."""
    if action.nargs == 0:  # a switch
        if not isinstance(value, bool):
            raise RecipeError(f"{where}: {option} is a switch: give true or false, not {value!r}")
        turns_on = getattr(action, "const", True) is not False
        return [option] if value is turns_on else []
    takes_boolean = getattr(action.type, "__name__", "") in ("eval_bool", "str_to_bool", "bool")
    if value is None or isinstance(value, bool) and not takes_boolean:
        raise RecipeError(f"{where}: {option} needs a value, not {value!r}")
    if isinstance(value, list) and (action.nargs in ("+", "*") or isinstance(action.nargs, int)):
        return [option, *map(str, value)]
    if isinstance(value, (list, dict)):
        return [option, repr(value)]
    # A value such as -inf would be read as a flag by itself.
    return [f"{option}={value}"] if str(value).startswith("-") else [option, str(value)]


class RefusedError(Exception):
    pass


def _parse(
    section: str, argv: list[str], *, known: bool, capture: Callable[[argparse.ArgumentParser], None] | None = None
) -> None:
    """Run fairseq's two-pass parsing. Raises RefusedError with the parser's message instead of leaving the process."""
    from fairseq import options, utils

    utils.import_user_module(argparse.Namespace(user_dir=str(USER_DIR)))
    # get_*_parser reads sys.argv for --user-dir; the import above has done that already.
    of_section = {"train": options.get_training_parser, "generate": options.get_generation_parser}
    parser: argparse.ArgumentParser = of_section.get(section, options.get_eval_lm_parser)()

    def refuse(message: str) -> None:
        raise RefusedError(message)

    parser.error = refuse  # type: ignore[method-assign,assignment]
    with contextlib.redirect_stderr(io.StringIO()):
        options.parse_args_and_arch(parser, input_args=argv, parse_known=known, modify_parser=capture)


def _fairseq_actions(recipe: Recipe, section: str, fixed: list[str]) -> dict[str, argparse.Action]:
    """Return all flags that fairseq knows for this architecture and the task, criterion, ... of the section."""
    from fairseq.registry import REGISTRIES

    entries = recipe.section(section)
    chosen = {"--" + key.replace("_", "-"): entries[key] for key in ("task", *REGISTRIES) if key in entries}
    try:
        return _actions(section, (*fixed, *(f"{option}={entry.value}" for option, entry in chosen.items())))
    except RefusedError as error:
        raise _at_line(recipe, section, str(error), chosen) from None


@functools.cache  # rows differ in few of these
def _actions(section: str, argv: tuple[str, ...]) -> dict[str, argparse.Action]:
    found: dict[str, argparse.Action] = {}
    _parse(section, list(argv), known=True, capture=lambda parser: found.update(parser._option_string_actions))
    return found


def _at_line(recipe: Recipe, section: str, message: str, places: Mapping[str, Entry]) -> RecipeError:
    """Return the error at the line of a flag that the message names; else at that of the recipe."""
    named = re.findall(r"--[\w-]+", message)
    where = next((places[option].where for option in named if option in places), recipe.where)
    return RecipeError(f"{where}: {command_of(section)}: {message}")
