"""The texts of an architecture, and the flags with which a hybrid model of the same sizes is the same model.

python -m fairseq_localattn describe --arch ARCH [flags of the variant and of fairseq]
python -m fairseq_localattn describe --path CHECKPOINT
python -m fairseq_localattn describe --arch ARCH --flags
"""

from __future__ import annotations

import argparse
import shlex
import textwrap
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq import checkpoint_utils, options
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig

from ..compat.loading import explained
from ..errors import UsageError
from ..grammar.words import or_known
from ..models.architectures import baseline_of, localattn_architectures, plain_architectures, task_of
from ..models.struct_config import as_namespace
from ..options import fill_defaults, option_names
from ..speed.runtime import ImplementationOptions
from .command import add_user_dir, check_checkpoint

# fairseq's task → the model whose attention is described by texts, and its architecture without a size.
HYBRIDS = {
    "translation": ("transformer_localattn", "transformer_hybrid"),
    "language_modeling": ("transformer_lm_hybrid", "transformer_lm_hybrid"),
    "sentence_prediction": ("transformer_hybrid_classifier", "transformer_hybrid_classifier"),
}
COLUMNS, INDENT = 100, " " * 4  # of the list of flags
# Other flags that fairseq's parser needs for a task.
MORE = {"sentence_prediction": ["--criterion", "sentence_prediction", "--num-classes", "2"]}


def model_of(arch: str) -> Any:
    """Return the model of an architecture; for a plain Transformer the hybrid, which is the same without a text."""
    task = task_of(arch)
    if task is None or arch in localattn_architectures():
        return task and ARCH_MODEL_REGISTRY[arch]
    return ARCH_MODEL_REGISTRY[HYBRIDS[task][1]]


def complete(arch: str, args: Namespace) -> Namespace:
    """Return arguments with all options of the model that describes them."""
    fill_defaults(args, model_of(arch).options)
    fill_defaults(args, ImplementationOptions)
    ARCH_CONFIG_REGISTRY[arch](args)
    return args


def parse(arch: str, flags: Sequence[str]) -> tuple[Namespace, argparse.ArgumentParser]:
    """Return the arguments of a model as fairseq-train completes them, and the parser with the model's flags.

    Raises UsageError for an unknown architecture and for flags that fairseq or the model refuses.
    """
    model = model_of(arch)
    if model is None:
        if arch in ARCH_MODEL_REGISTRY:
            raise UsageError(f"--arch {arch}: a model of fairseq without attention that a text describes")
        known = {**localattn_architectures(), **plain_architectures()}
        raise UsageError(f"--arch {arch}: there is no such architecture{or_known(arch, known)}")
    task = getattr(model, "phrase_task", model.task)
    parser = options.get_training_parser()
    given = ["data", "--task", task, *MORE.get(task, []), "--arch", arch, *flags]
    return complete(arch, options.parse_args_and_arch(parser, given)), parser


def checkpoint_arguments(path: str) -> tuple[str, Namespace]:
    """Return the architecture of a checkpoint, and the arguments of its model.

    Raises UsageError for a file that is no checkpoint, and for a model that is none of this package or has options of
    which no model can be made.
    """
    check_checkpoint(path)
    found: tuple[str, Namespace] = explained(_checkpoint_arguments, f"{path} describes no model")(path)
    return found


def _checkpoint_arguments(path: str) -> tuple[str, Namespace]:
    args = as_namespace(checkpoint_utils.load_checkpoint_to_cpu(path)["cfg"]["model"])
    arch = getattr(args, "arch", None) or args._name  # fairseq-hydra-train writes only the latter
    model = model_of(arch)
    if model is None:
        raise UsageError(f"--path {path}: its architecture {arch!r} is none of this package, and has no text")
    model.check_args(complete(arch, args))  # a checkpoint of an older version may lack an option
    return arch, args


def texts_of(arch: str, args: Namespace) -> dict[str, str]:
    """Return site → text, the plain sites included."""
    model = model_of(arch)
    found = model.attention_builder(TransformerConfig.from_namespace(args)).texts()
    return {site: found.get(site, "all: san") for site in model.sites}


def hybrid_of(arch: str) -> str:
    """Return the hybrid architecture of the same baseline; of a baseline without one, that without a size."""
    model, standard = HYBRIDS[model_of(arch).task]
    same = [name for name, its in localattn_architectures().items() if its == model]
    baseline = baseline_of(arch) if arch in localattn_architectures() else arch
    return next((name for name in reversed(same) if baseline_of(name) == baseline), standard)


def hybrid_flags(arch: str, args: Namespace, texts: Mapping[str, str]) -> list[str]:
    """Return the command line of the hybrid model that is the same model.

    Args:
        arch: the architecture.
        args: its complete arguments (:func:`parse`).
        texts: site → text.

    Raises UsageError for an option that no text expresses.
    """
    model = model_of(arch)
    for name in model.beyond_text:
        if getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} changes more than the attention: no text is the same model")
    plain = "all: san"
    found = [word for site, text in texts.items() if text != plain for word in (f"--localattn-{site}", text)]
    hybrid = hybrid_of(arch)
    other, parser = parse(hybrid, found)
    own = {*option_names(model.options), *option_names(ARCH_MODEL_REGISTRY[hybrid].options)}
    actions = {action.dest: action for action in model_actions(parser) if action.dest not in own}
    for name, action in actions.items():
        value, standard = (getattr(each, name, None) for each in (args, other))
        if value != standard:
            found += _written(action, value)
    return ["--arch", hybrid, *found]


def model_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the actions of the flags that a parser of :func:`parse` has for the model."""
    group = next(each for each in parser._action_groups if each.title == "Model-specific configuration")
    return group._group_actions


def flag_lines(arch: str, flags: Sequence[str]) -> list[str]:
    """Return the lines of a model's flags: each with its value in the architecture, this package's also with help."""
    args, parser = parse(arch, flags)
    own_options = getattr(ARCH_MODEL_REGISTRY[arch], "options", None)  # fairseq's models have none
    names = {*option_names(ImplementationOptions), *(option_names(own_options) if own_options else ())}
    own, rest = [], []
    for action in model_actions(parser):
        value = getattr(args, action.dest, None)
        shown = "" if value is None else "off" if value is False else "on" if value is True else str(value) or "''"
        words = f"{action.option_strings[0]} {shown}".rstrip()
        if action.dest in names:
            own += [words, *textwrap.wrap(action.help or "", COLUMNS, initial_indent=INDENT, subsequent_indent=INDENT)]
        else:
            rest.append(words.replace(" ", "\N{NO-BREAK SPACE}"))
    wrapped = textwrap.fill(", ".join(rest), COLUMNS, break_on_hyphens=False).replace("\N{NO-BREAK SPACE}", " ")
    return [f"flags of {arch}, with its values:", *own, *([""] if own else []), "of fairseq's model:", wrapped]


def _written(action: argparse.Action, value: Any) -> list[str]:
    """Return a flag with its value. Raises UsageError for a switch that no flag can turn off."""
    flag = next(each for each in action.option_strings if each.startswith("--"))
    if action.nargs == 0:
        if not value:
            raise UsageError(f"no flag takes back {flag}, which the hybrid architecture has")
        return [flag]
    return [flag, ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)]


def describe(arch: str, flags: Sequence[str]) -> list[str]:
    """Return the lines that the command prints for an architecture with flags. Raises UsageError."""
    return described(arch, parse(arch, flags)[0])


def described(arch: str, args: Namespace) -> list[str]:
    """Return the texts of complete arguments, line by line, and the flags of the hybrid model."""
    texts = texts_of(arch, args)
    width = max(map(len, texts))
    lines = [f"{site:{width}}  {text}" for site, text in texts.items()]
    try:
        return [*lines, "", shlex.join(hybrid_flags(arch, args, texts))]
    except UsageError as error:
        return [*lines, "", f"no hybrid model is the same: {error}"]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the texts, and the flags of the hybrid model."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn describe",
        description="Print the attention of an architecture, or of a checkpoint's model, as texts, and the flags of "
        "the same model made from them.",
        epilog="flags of the architecture and of fairseq may follow --arch, as for fairseq-train",
        allow_abbrev=False,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--arch", help="an architecture of this package")
    source.add_argument("--path", metavar="CHECKPOINT", help="a trained model")
    parser.add_argument("--flags", action="store_true", help="print the flags of --arch instead, with their values")
    add_user_dir(parser)
    args, flags = parser.parse_known_args(argv)
    if args.flags and args.path is not None:
        raise UsageError("--flags goes with --arch")
    if args.flags:
        print("\n".join(flag_lines(args.arch, flags)))
        return
    if args.path is None:
        print("\n".join(describe(args.arch, flags)))
        return
    if flags:
        raise UsageError(f"unrecognized arguments: {' '.join(flags)}: --path has the options of its training")
    print("\n".join(described(*checkpoint_arguments(args.path))))


if __name__ == "__main__":
    main()
