"""Checkpoints of older fairseq, read as data: meters as objects (up to 0.8), ``cfg`` as one of omegaconf (1.0.0a0).

The classes of such objects are replaced by :class:`Inert`, which keeps what was stored and does nothing.
"""

from __future__ import annotations

import functools
import pickle
from argparse import Namespace
from typing import Any

import torch

MOST_NESTED = 100  # containers within each other in a configuration


class Inert:
    """In the place of an object: its attributes as they were stored, and nothing that can be called."""

    def __init__(self, *parts: Any) -> None:
        """Take what the object was made of, and drop it."""

    def __setstate__(self, state: Any) -> None:
        """Keep the attributes of an object."""
        if isinstance(state, dict):
            vars(self).update({str(name): value for name, value in state.items()})


# Names of the replaced classes in files, with those that omegaconf's metadata refer to.
NAMES = (
    *(f"fairseq.{module}.{kind}Meter" for module in ("meters", "logging.meters") for kind in ("Average", "Time")),
    *("fairseq.meters.StopwatchMeter", "fairseq.logging.meters.StopwatchMeter"),
    *("omegaconf.dictconfig.DictConfig", "omegaconf.listconfig.ListConfig", "omegaconf.nodes.AnyNode"),
    *("omegaconf.base.ContainerMetadata", "omegaconf.base.Metadata", "collections.defaultdict", "typing.Any"),
    *(f"{module}.{kind}" for module in ("builtins", "__builtin__") for kind in ("dict", "list", "int")),
)


class Converted(dict[str, Any]):
    """A checkpoint of an older fairseq in today's form. Today's fairseq cannot read its file."""


def load(path: str, *, mmap: bool) -> Any:
    """Return what a file of any version of fairseq holds; of an older one as :class:`Converted`, without its meters.

    Raises what ``torch.load`` raises, UnpicklingError also for objects at places where fairseq wrote none.
    """
    read = functools.partial(torch.load, path, map_location="cpu", weights_only=True, mmap=mmap)
    try:
        state = read()
    except pickle.UnpicklingError as error:
        with torch.serialization.safe_globals([(Inert, name) for name in NAMES]):
            try:
                state = read()
            except pickle.UnpicklingError:
                raise error from None  # it names all that is foreign
        if not isinstance(state, dict):
            raise
        state = Converted(state)
        state["cfg"] = _plain(state.get("cfg"))
        extra = state.get("extra_state")
        if isinstance(extra, dict):  # the meters are not read any more
            state["extra_state"] = {key: value for key, value in extra.items() if not key.endswith("_meters")}
        if _holds_objects(state):
            raise
    args = state.get("args") if isinstance(state, dict) else None
    if isinstance(args, Namespace) and isinstance(devices := getattr(args, "device_id", None), list):  # in 2018
        args.device_id = devices[0] if devices else 0
        state = Converted(state)
    return state


def _plain(value: Any) -> Any:
    """Return a configuration with dictionaries, lists and values in the place of omegaconf's objects."""
    done: dict[int, Any] = {}

    def plain(item: Any, depth: int) -> Any:
        if not isinstance(item, Inert):
            return item
        if depth > MOST_NESTED:
            raise pickle.UnpicklingError("its configuration is nested too deeply")
        if id(item) not in done:
            content = getattr(item, "_content", getattr(item, "_val", None))
            if isinstance(content, dict):
                content = {key: plain(part, depth + 1) for key, part in content.items()}
            elif isinstance(content, list):
                content = [plain(part, depth + 1) for part in content]
            done[id(item)] = content
        return done[id(item)]

    return plain(value, 0)


def _holds_objects(value: Any) -> bool:
    """Return whether an :class:`Inert` is anywhere in nested containers."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Inert):
            return True
        if id(item) not in seen and isinstance(item, (dict, list, tuple, set, Namespace)):
            seen.add(id(item))
            stack.extend(vars(item).values() if isinstance(item, Namespace) else item)
            stack.extend(item.values() if isinstance(item, dict) else ())
    return False
