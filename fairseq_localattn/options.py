"""A variant's options: one flat dataclass, from which come its flags and its defaults.

Names start with the variant's prefix (``csan_window`` → ``--csan-window``). fairseq reads names that start with
``encoder``, ``decoder`` or ``quant_noise`` as fields of its own sub-configurations, and unprefixed ones may collide
with the task's or the criterion's; both are refused here, when the plugin is imported. A file that holds such a
dataclass must not postpone annotations (``from __future__ import annotations``): fairseq reads the fields' types.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import fields
from typing import Any, TypeVar

from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass

Options = TypeVar("Options", bound=FairseqDataclass)
RESERVED = ("encoder", "decoder", "quant_noise", "adaptive", "base_")


def check_names(options: type[FairseqDataclass], prefix: str) -> None:
    """Raise TypeError unless every option is named ``<prefix>_…`` and the prefix is free to use."""
    if prefix.startswith(RESERVED):
        raise TypeError(f"the prefix {prefix!r} of {options.__name__} is reserved by fairseq")
    for name in option_names(options):
        if not name.startswith(f"{prefix}_"):
            raise TypeError(f"option {name!r} of {options.__name__} must start with {prefix}_")


def option_names(options: type[FairseqDataclass]) -> list[str]:
    return [f.name for f in fields(options) if not f.name.startswith("_")]


def add_flags(parser: ArgumentParser, options: type[FairseqDataclass]) -> None:
    """Flags without defaults, so that fairseq's named architectures can fill those in."""
    gen_parser_from_dataclass(parser, options(), delete_default=True)


def set_missing(args: Any, **values: Any) -> None:
    """Set what the command line has not set."""
    for name, value in values.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)


def fill_defaults(args: Any, options: type[FairseqDataclass], **defaults: Any) -> None:
    """Set each option that ``args`` lacks, to ``defaults`` where given there, else to the dataclass's default."""
    standard = options()
    set_missing(args, **{name: defaults.get(name, getattr(standard, name)) for name in option_names(options)})


def read_options(args: Any, options: type[Options]) -> Options:
    """The options as they stand in a namespace or a fairseq configuration."""
    return options(**{name: getattr(args, name) for name in option_names(options)})
