"""A training continues the checkpoint of its own model: another one of equal shapes is refused."""

from __future__ import annotations

import os
import zipfile
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY

from ...errors import UsageError
from ...grammar.placement import SITES
from ...stored import older

# Options of fairseq's Transformer that change what a model computes, and not the shapes of its weights.
BEYOND_SHAPES = (
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_normalize_before",
    "decoder_normalize_before",
    "activation_fn",
    "no_scale_embedding",
    "no_token_positional_embeddings",
)
ADVICE = (
    "to begin with its weights, give another --save-dir and --finetune-from-model {path}; to train anew, another "
    "--save-dir"
)


def check(path: str, asked: Any) -> None:
    """Raise UsageError where the checkpoint at ``path`` is of another model than ``asked`` describes.

    Compared are the kind of model, the texts of its attention and options that no shape tells. A file that cannot be
    read is left to fairseq, which reads it next. An option that the checkpoint lacks counts as equal.
    """
    stored = _options_in(path)
    if stored is None:
        return
    given = _values(asked)
    before, now = _facts({**given, **stored}), _facts(given)
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    changed = ["model"] if "model" in changed else changed  # whose other facts cannot be compared
    if changed:
        says, wants = (
            f"{_name(values)} ({_told(facts, changed)})" for values, facts in ((stored, before), (given, now))
        )
        raise UsageError(
            f"fairseq_localattn: {path} is of {says}, and this training is of {wants}: {ADVICE.format(path=path)}"
        )


def _options_in(path: str) -> dict[str, Any] | None:
    """Return the options of the model in a checkpoint; None where they cannot be read."""
    if not os.path.isfile(path):
        return None
    try:
        state = older.load(path, mmap=zipfile.is_zipfile(path))
        return _values(state["args"] if state.get("args") is not None else state["cfg"]["model"])
    except Exception:
        return None


def _values(options: Any) -> dict[str, Any]:
    return dict(options) if isinstance(options, Mapping) else dict(vars(options))


def _name(options: Mapping[str, Any]) -> str:
    return f"--arch {options.get('arch') or options.get('_name')}"


def _facts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model is: its kind, the text of each site, and what neither text nor shape says."""
    name = options.get("arch") or options.get("_name")
    model = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
    if model is None:
        return {"model": name}
    own = __name__.partition(".")[0]
    # A variant is the model of fairseq that it derives from, with other texts.
    kind = next(base for base in model.__mro__ if base.__module__.partition(".")[0] != own)
    names = (*BEYOND_SHAPES, *getattr(model, "beyond_text", ()))
    found = {option: str(options[option]) for option in names if options.get(option)}
    texts = model.stored_texts(Namespace(**options)) if hasattr(model, "stored_texts") else {}
    return {"model": kind.__name__, **found, **texts}


def _told(facts: Mapping[str, Any], names: list[str]) -> str:
    """Return the facts of these names for reading."""
    return ", ".join(f"{name}: {facts.get(name, 'san' if name in SITES else 'not set')}" for name in names)
