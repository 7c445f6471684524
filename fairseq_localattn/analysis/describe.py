"""The texts of an architecture, and the flags with which a hybrid model of the same sizes is the same model.

python -m fairseq_localattn describe --arch ARCH [flags of the variant and of fairseq]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig

from ..errors import UsageError
from ..grammar.words import nearest
from ..models.architectures import baseline_of, localattn_architectures
from ..options import option_names

# fairseq's task → the model whose attention is described by texts, and the architecture with its smallest name.
HYBRIDS = {
    "translation": ("transformer_localattn", "transformer_hybrid"),
    "language_modeling": ("transformer_lm_hybrid", "transformer_lm_hybrid"),
    "sentence_prediction": ("transformer_hybrid_classifier", "transformer_hybrid_classifier"),
}
# What the parser of a task asks for beside it.
MORE = {"sentence_prediction": ["--criterion", "sentence_prediction", "--num-classes", "2"]}


def parse(arch: str, flags: Sequence[str]) -> tuple[Namespace, argparse.ArgumentParser]:
    """Return the arguments of a model as fairseq-train completes them, and the parser with the model's flags.

    Raises UsageError for an unknown architecture and for flags that fairseq or the model refuses.
    """
    if arch not in localattn_architectures():
        raise UsageError(f"--arch {arch}: there is no such architecture{nearest(arch, localattn_architectures())}")
    model = ARCH_MODEL_REGISTRY[arch]
    task = getattr(model, "phrase_task", model.task)
    parser, shown = options.get_training_parser(), io.StringIO()
    try:
        with contextlib.redirect_stderr(shown):
            given = ["data", "--task", task, *MORE.get(task, []), "--arch", arch, *flags]
            return options.parse_args_and_arch(parser, given), parser
    except UsageError:
        raise
    except SystemExit as stop:  # argparse has written its usage and then one line
        if not stop.code:
            raise
        raise UsageError(shown.getvalue().strip().rpartition("\n")[2].rpartition("error: ")[2]) from None


def texts_of(arch: str, args: Namespace) -> dict[str, str]:
    """Return site → text, the plain sites included."""
    model = ARCH_MODEL_REGISTRY[arch]
    found = model.attention_builder(TransformerConfig.from_namespace(args)).texts()
    return {site: found.get(site, "all: san") for site in model.sites}


def hybrid_of(arch: str) -> str:
    """Return the hybrid architecture of the same baseline; of a baseline without one, that without a size."""
    model, standard = HYBRIDS[ARCH_MODEL_REGISTRY[arch].task]
    same = [name for name, its in localattn_architectures().items() if its == model]
    return next((name for name in reversed(same) if baseline_of(name) == baseline_of(arch)), standard)


def hybrid_flags(arch: str, args: Namespace, texts: Mapping[str, str]) -> list[str]:
    """Return the command line of the hybrid model that is the same model.

    Args:
        arch: the architecture.
        args: its complete arguments (:func:`parse`).
        texts: site → text.

    Raises UsageError for an option that no text expresses.
    """
    model = ARCH_MODEL_REGISTRY[arch]
    for name in model.beyond_text:
        if getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} changes more than the attention: no text is the same model")
    plain = "all: san"
    found = [word for site, text in texts.items() if text != plain for word in (f"--localattn-{site}", text)]
    hybrid = hybrid_of(arch)
    other, parser = parse(hybrid, found)
    own = {*option_names(model.options), *option_names(ARCH_MODEL_REGISTRY[hybrid].options)}
    group = next(each for each in parser._action_groups if each.title == "Model-specific configuration")
    actions = {action.dest: action for action in group._group_actions if action.dest not in own}
    for name, action in actions.items():
        value, standard = (getattr(each, name, None) for each in (args, other))
        if value != standard:
            found += _written(action, value)
    return ["--arch", hybrid, *found]


def _written(action: argparse.Action, value: Any) -> list[str]:
    """Return a flag with its value. Raises UsageError for the absence of what the other architecture has."""
    flag = next(each for each in action.option_strings if each.startswith("--"))
    if action.nargs == 0:
        if not value:
            raise UsageError(f"no flag takes back {flag}, which the hybrid architecture has")
        return [flag]
    return [flag, ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)]


def describe(arch: str, flags: Sequence[str]) -> list[str]:
    """Return the lines that the command prints. Raises UsageError."""
    args, _ = parse(arch, flags)
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
        description="Print the attention of an architecture as texts, and the flags of the same model made from them.",
        epilog="flags of the architecture and of fairseq may follow, as for fairseq-train",
        allow_abbrev=False,
    )
    parser.add_argument("--arch", required=True, help="an architecture of this package")
    args, flags = parser.parse_known_args(argv)
    print("\n".join(describe(args.arch, flags)))


if __name__ == "__main__":
    main()
