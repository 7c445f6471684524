"""Command lines of fairseq: a mistake ends in one line that names the nearest flag or value, without the usage."""

from __future__ import annotations

import argparse
import functools
import os
import re
import types
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from fairseq import options
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from ..errors import UsageError, did_you_mean, nearest
from .around import around

CHOICE = re.compile(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)
FLAG = re.compile(r"--?[a-zA-Z]")  # unlike a negative number
MOST_CHOICES = 12  # that are all named
LIST = "python -m fairseq_localattn lists the architectures"


class Parser(ArgumentParser):
    """An ArgumentParser whose mistakes are a UsageError of one line."""

    _checks: tuple[Callable[[Namespace], None], ...] = ()

    def check_with(self, check: Callable[[Namespace], None]) -> None:
        """Let ``parse_args`` call ``check`` with the arguments; it raises UsageError for invalid ones."""
        self._checks += (check,)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; called by argparse."""
        found = CHOICE.fullmatch(message)
        raise UsageError(_no_choice(*found.groups()) if found else message.replace("<lambda> ", ""))

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments. Raises UsageError for unknown ones, with what each may have been meant to be."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            arch = getattr(parsed, "arch", None)
            self.error(_unknown(unknown, self._option_string_actions, arch))
        for check in self._checks:
            check(parsed)
        return parsed


def _no_choice(flag: str, value: str, choices: str) -> str:
    """Return the line of a value that is none of a flag's choices, which argparse's message lists."""
    names = [name.strip("' ") for name in choices.split(",")]
    what = f"{flag.partition('/')[0]} {value}: there is no such value"
    if len(names) > MOST_CHOICES and (meant := did_you_mean(value, names)):
        return what + meant
    return f"{what}; {LIST}" if flag.startswith("--arch") else f"{what}; choose from {', '.join(names)}"


def _unknown(words: list[str], known: Iterable[str], arch: str | None) -> str:
    """Return the line of the words of a command line that no flag takes."""
    flags = [word.partition("=")[0] for word in words if FLAG.match(word)]
    if not flags:
        return f"no flag takes {' '.join(words)!r}: the data is one word, and each option begins with --"
    owners = _owners()
    line = "; ".join(_meant(flag, known, owners) for flag in flags)
    ours = arch is not None and ARCH_MODEL_REGISTRY[arch].__module__.startswith(__name__.partition(".")[0])
    more = f" (python -m fairseq_localattn describe --arch {arch} --flags lists those of the model)" if ours else ""
    return line + more


def _meant(flag: str, known: Iterable[str], owners: Mapping[str, list[str]]) -> str:
    """Return what a flag that is not ``known`` belongs to, or which flag it may have been meant to be."""
    if flag in owners:
        return f"there is no flag {flag} here: it belongs to {_owner(flag, owners)}"
    meant = nearest(flag, {*known, *owners}, cutoff=0.7)
    if meant is None:
        return f"there is no flag {flag}"
    whose = "" if meant in known else f", which belongs to {_owner(meant, owners)}"
    return f"there is no flag {flag}; did you mean {meant}{whose}?"


def _owner(flag: str, owners: Mapping[str, list[str]]) -> str:
    """Return what a flag belongs to; of several, that with most words in common, then the shortest."""
    kind = owners[flag][0].partition(" ")[0]
    words = set(flag.split("-"))
    same = [owner for owner in owners[flag] if owner.partition(" ")[0] == kind]
    return min(same, key=lambda owner: (-len(words & set(owner.rpartition(" ")[2].split("_"))), len(owner)))


def _owners() -> dict[str, list[str]]:
    """Return flag → what adds it to a command line: a command, or a choice such as ``--optimizer adam``."""
    found: dict[str, list[str]] = {}
    for command, make in (("train", options.get_training_parser), ("generate", options.get_generation_parser)):
        for flag in make()._option_string_actions:
            found.setdefault(flag, []).append(f"fairseq-{command}")
    kinds = {**{kind: entry["registry"] for kind, entry in REGISTRIES.items()}, "arch": ARCH_MODEL_REGISTRY}
    for kind, classes in {**kinds, "task": TASK_REGISTRY}.items():
        for name, owner in classes.items():
            for flag in _flags(owner):
                found.setdefault(flag, []).append(f"--{kind.replace('_', '-')} {name}")
    return found


@functools.cache
def _flags(owner: Any) -> frozenset[str]:
    """Return the flags that a class of fairseq adds to a command line."""
    parser = ArgumentParser(add_help=False, conflict_handler="resolve")
    try:
        if hasattr(owner, "add_args"):
            owner.add_args(parser)
        elif dataclass := getattr(owner, "__dataclass", None):
            gen_parser_from_dataclass(parser, dataclass())
    except Exception:  # one that cannot say its flags brings none
        return frozenset()
    return frozenset(parser._option_string_actions)


def _name_what_is_missing(parse: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Wrap fairseq's ``parse_args_and_arch``: raise UsageError where a choice is missing, or two exclude each other."""
    try:
        return parse(*args, **kwargs)
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error
    except RuntimeError as error:
        if error.args:
            raise
        raise UsageError(f"--arch is missing; {LIST}") from error
    except KeyError as error:
        if error.args != (None,):
            raise
        raise UsageError("--task is missing; give that of the training") from error


def check_preprocess(args: Namespace) -> None:
    """Raise UsageError for arguments of fairseq-preprocess that name no text, no dictionary, or data that exist."""
    sides = [(args.source_lang, args.srcdict)] + [(args.target_lang, args.tgtdict)] * (not args.only_source)
    given = [dictionary for _, dictionary in sides if dictionary]
    if not args.trainpref and len(given) < (1 if args.joined_dictionary else len(sides)):
        raise UsageError("--trainpref is missing: dictionaries are made of its text, if not given")
    for language, dictionary in sides:
        made = os.path.join(args.destdir, _named("dict", language, "txt"))
        if not dictionary and os.path.exists(made):
            raise UsageError(f"--destdir {args.destdir}: data are in it ({made}); give another folder")
        if dictionary and not os.path.isfile(dictionary):
            raise UsageError(f"there is no dictionary {dictionary}")
        for flag in ("trainpref",) if args.dict_only else ("trainpref", "validpref", "testpref"):
            value = getattr(args, flag) or ""
            for prefix in filter(None, [value] if flag == "trainpref" else value.split(",")):
                file = _named(prefix, language)
                if not os.path.isfile(file):
                    more = "" if language else "; give the languages, -s and -t, or --only-source"
                    raise UsageError(f"--{flag} {prefix}: there is no file {file}{more}")


def _named(*parts: str | None) -> str:
    """Return a name of fairseq-preprocess, as in dict.en.txt; a language may be None."""
    return ".".join(filter(None, parts))


def apply() -> None:
    """Install the parser in fairseq; to be called once."""
    # fairseq imports the plugin in get_parser(), before it makes the parser there.
    vars(options)["argparse"] = types.SimpleNamespace(**{**vars(argparse), "ArgumentParser": Parser})
    around(options, "parse_args_and_arch")(_name_what_is_missing)

    @around(options, "add_preprocess_args")
    def add_preprocess_args(add: Callable[..., Parser], parser: Parser) -> Parser:
        parser.check_with(check_preprocess)
        return add(parser)
