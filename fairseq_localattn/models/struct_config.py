"""Named architectures for both of fairseq's ways in: command lines, and configurations of ``fairseq-hydra-train``.

A command line is parsed by the model's flags and is shared by task and model. A configuration comes as it was written:
unchecked, without the options that were left out, and separate from the task's. :func:`named_architecture` makes the
second like the first before the architecture's function runs.
"""

from __future__ import annotations

import functools
from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any, NoReturn

from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture
from fairseq.models.transformer import TransformerModelBase
from omegaconf import OmegaConf

from ..errors import UsageError, nearest
from ..options import flag_of

ArchitectureFunction = Callable[[Any], None]
# Options of the task, or of all parts ("common"), that fairseq's models read from the one namespace of a command line.
SHARED = {
    "task": ("max_source_positions", "max_target_positions", "max_positions", "tokens_per_sample", "add_bos_token"),
    "common": ("tpu",),
}
# Parts of TransformerConfig: `encoder: {layers: 3}` is `encoder_layers: 3`.
NESTED = ("encoder", "decoder", "quant_noise")
# Fields of TransformerConfig without a flag, which only models with this configuration read.
UNFLAGGED = {"decoder_input_dim": int}


class _Parser(ArgumentParser):
    """A parser of options that came from a configuration; its errors are of one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message} (an option of the model in the configuration)")


def named_architecture(model: str, name: str) -> Callable[[ArchitectureFunction], ArchitectureFunction]:
    """Register the decorated function as fairseq's architecture ``name`` of ``model``, for configurations as well.

    The function sets options of a namespace where they are missing. Registered, it also takes an omegaconf
    configuration: its values win over the architecture's, and it holds all options afterwards, also in the checkpoint.
    Raises UsageError for the options that the model does not have, with the nearest, and for a value of another type.
    """

    def register(function: ArchitectureFunction) -> ArchitectureFunction:
        @functools.wraps(function)
        def architecture(args: Any) -> None:
            if not OmegaConf.is_config(args):
                return function(args)
            options = _options_of(args, name)
            function(options)
            for part in NESTED:
                args.pop(part, None)
            args.update(vars(options), arch=name)
            return None

        register_model_architecture(model, name)(architecture)
        return function

    return register


def as_namespace(args: Any) -> Namespace:
    """Return the options of a model as the namespace that a command line gives; a namespace as it is."""
    if not OmegaConf.is_config(args):
        return args
    options: Any = OmegaConf.to_container(args, resolve=True)
    return Namespace(**options)


def _options_of(config: Any, name: str) -> Namespace:
    """Return the options that a configuration of the architecture ``name`` gives, flat and of the flags' types."""
    complete = "arch" in config and "_name" in config  # by an earlier call: a checkpoint's, perhaps of an older version
    given = as_namespace(config)
    if complete:
        return given
    parser = _Parser(prog=name, argument_default=SUPPRESS, add_help=False, allow_abbrev=False)
    model = ARCH_MODEL_REGISTRY[name]
    model.add_args(parser)
    for option, kind in UNFLAGGED.items() if issubclass(model, TransformerModelBase) else ():
        parser.add_argument(flag_of(option), type=kind)
    flags = {flag[2:].replace("-", "_"): action for flag, action in parser._option_string_actions.items()}
    root, words, shared = config._get_parent() or {}, [], {}
    for part, options in SHARED.items():
        others = root.get(part) or {}
        shared.update({option: others[option] for option in options if option in others})
    known = {*flags, *(option for options in SHARED.values() for option in options)}
    values = _flat(vars(given))
    close = {option: nearest(option, known) for option in values if option not in known}
    if unknown := [f"{option} (did you mean {meant}?)" if meant else option for option, meant in close.items()]:
        hint = "its options are the flags of fairseq-train, with _ for -"
        raise UsageError(f"{name}: the model has no option {', '.join(unknown)}; {hint}")
    for option, value in values.items():
        if value is None:
            continue
        if option in flags and value is False and flags[option].nargs == 0:  # a switch that the architecture may set
            shared[flags[option].dest] = not flags[option].const
        elif option in flags:
            words += _words(parser, flags[option], value)
        else:
            shared[option] = value
    return parser.parse_args(words, Namespace(**shared))


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options by their flat names, without those that name the architecture."""
    flat = {key: value for key, value in values.items() if key not in ("_name", "arch", *NESTED)}
    for part in NESTED:
        flat.update({f"{part}_{key}": value for key, value in (values.get(part) or {}).items() if key != "_name"})
    return flat


def _words(parser: ArgumentParser, action: Action, value: Any) -> list[str]:
    """Return the words of a command line that set an option."""
    flag = action.option_strings[0]
    if action.nargs == 0:  # a switch
        if not isinstance(value, bool):
            parser.error(f"argument {flag}: give true or false, not {value!r}")
        return [flag]
    return [f"{flag}={','.join(map(str, value)) if isinstance(value, list) else value}"]
