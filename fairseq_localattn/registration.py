"""Registers this package with fairseq, whichever is imported first; without fairseq nothing is loaded.

The folders of modules that import fairseq at their start call :func:`register` first. Only so are all of them complete
when a model that needs them is registered.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_registered = False


def register() -> None:
    """Repair fairseq, and register all that this package adds to it; do nothing where fairseq is not installed."""
    global _registered
    try:
        import fairseq  # noqa: F401  the finder below registers, unless fairseq was there
    except ModuleNotFoundError as error:
        if error.name != "fairseq":
            raise
        return
    if not _registered:
        _registered = True
        # Imported by name, since the models import this module.
        import_module(f"{__package__}.compat.repairs").apply()
        for name in ("criterions", "optim", "tasks", "variants"):
            import_module(f"{__package__}.{name}")
        import_module(f"{__package__}.speed.graphs.training").apply()


def register_with_fairseq() -> None:
    """Call :func:`register` now if fairseq is imported, or else at the end of its import."""
    if "fairseq" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _AfterFairseq())


class _AfterFairseq(MetaPathFinder):
    """Finds fairseq as Python does, and registers when it is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "fairseq":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            sys.meta_path.remove(self)
            with _logging_kept():
                execute(module)
            # hub.py needs fairseq for its own classes, which models need: it registers at its end.
            if f"{__package__}.hub" not in sys.modules:
                register()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


@contextmanager
def _logging_kept() -> Iterator[None]:
    """Context manager: take back what fairseq's import sets of the root logger, and hide its wrong advice.

    One of its models sets the level DEBUG, and a task of speech asks for tensorboardX, which no text model needs.
    """
    root, advice = logging.getLogger(), logging.getLogger("fairseq.tasks.text_to_speech")
    level, handlers, of_advice = root.level, root.handlers[:], advice.level
    advice.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
        advice.setLevel(of_advice)
