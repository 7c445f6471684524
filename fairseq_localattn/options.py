"""Options of a variant: one flat dataclass that defines both its command-line flags and its defaults.

Every name starts with the variant's prefix (``csan_window`` → ``--csan-window``), which is checked when the plugin is
imported: fairseq reads names that start with ``encoder``, ``decoder`` or ``quant_noise`` as fields of its own
sub-configurations, and names without a prefix may collide with those of a task or criterion. A file that defines such a
dataclass must not use ``from __future__ import annotations``, since fairseq reads the types of the fields.
"""

from __future__ import annotations

import math
from argparse import ArgumentParser
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import UsageError
from .ranges import RANGES, check_option

if TYPE_CHECKING:
    from fairseq.dataclass import FairseqDataclass

Options = TypeVar("Options", bound="FairseqDataclass")
RESERVED = ("encoder", "decoder", "quant_noise", "adaptive", "base_")


def option(default: Any, text: str) -> Any:
    """Return the field of an option with its default and its help text."""
    return field(default=default, metadata={"help": text})


def layer_option(site: str, what: str, default: str = "none", more: str = "") -> Any:
    """Return the field of the option that places ``what`` in layers of a site, such as ``csan_encoder_layers``."""
    texts = {
        "encoder": f"encoder layers with {what}: all, none, or numbers from 1 (1-3, 1,4-6)",
        "decoder": f"decoder layers with {what} in their self-attention",
        "cross": f"decoder layers with {what} in their attention to the encoder",
    }
    return option(default, texts[site] + more)


def no_layers(reason: str = "source and target positions cannot be compared") -> Any:
    """Return the field of the ``…_layers`` option of a site where a mechanism is not defined."""
    return option("none", f"must stay none: {reason}")


def check_names(options: type[FairseqDataclass], prefix: str) -> None:
    """Raise TypeError unless every option is named ``<prefix>_…`` and fairseq does not reserve the prefix."""
    if prefix.startswith(RESERVED):
        raise TypeError(f"the prefix {prefix!r} of {options.__name__} is reserved by fairseq")
    for name in option_names(options):
        if not name.startswith(f"{prefix}_"):
            raise TypeError(f"option {name!r} of {options.__name__} must start with {prefix}_")


def flag_of(name: str) -> str:
    """Return the flag of an option, as in ``--csan-window``."""
    return "--" + name.replace("_", "-")


def option_names(options: type[FairseqDataclass]) -> list[str]:
    """Return the names of the options, in the order of their definition."""
    return [f.name for f in fields(options) if not f.name.startswith("_")]


def add_flags(parser: ArgumentParser, options: type[FairseqDataclass]) -> None:
    """Add a flag for each option, without defaults, which fairseq's named architectures fill in."""
    from fairseq.dataclass.utils import gen_parser_from_dataclass  # here, so that this module needs no fairseq

    gen_parser_from_dataclass(parser, options(), delete_default=True)


def set_missing(args: Any, **values: Any) -> None:
    """Set each of ``values`` on ``args`` where the attribute is missing or None."""
    for name, value in values.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)


def fill_defaults(args: Any, options: type[FairseqDataclass], **defaults: Any) -> None:
    """Set each option that is missing in ``args`` to its value in ``defaults``, or else to the dataclass's default."""
    standard = options()
    set_missing(args, **{name: defaults.get(name, getattr(standard, name)) for name in option_names(options)})


def check_ranges(args: Any, options: type[FairseqDataclass]) -> None:
    """Raise UsageError for fairseq's sizes beyond :data:`RANGES`, rates outside of [0, 1), own numbers above 31 bits.

    The last word of a name says what the option is: ``…_dim``, ``…_heads``, ``…_layers`` and so on,
    or ``…dropout``. fairseq would build a model with such values, or end in a traceback.
    """
    own = set(option_names(options))
    for name, value in vars(args).items():
        flag, kind = flag_of(name), name.rpartition("_")[2]
        rate = kind.endswith("dropout") or name == "quant_noise_pq"
        if isinstance(value, float) and rate and not 0 <= value < 1:
            raise UsageError(f"{flag} {value}: give a rate from 0 to less than 1")
        if isinstance(value, float) and name in own and not math.isfinite(value):
            raise UsageError(f"{flag} {value}: give a number")
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        lowest, highest = RANGES.get(kind, (value, value))
        if name not in own:
            check_option(flag, value, lowest, highest)
        if name in own and abs(value) >= 2**31:
            raise UsageError(f"{flag} {value}: give a number of at most 31 bits")


def read_options(args: Any, options: type[Options]) -> Options:
    """Return the options that a namespace or a fairseq configuration holds."""
    return options(**{name: getattr(args, name) for name in option_names(options)})
