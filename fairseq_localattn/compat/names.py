"""Names in a checkpoint of a fairseq before 0.10 that today's fairseq does not know."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from ..errors import UsageError

REGISTRIES: tuple[tuple[str, str, tuple[Mapping[str, Any], ...]], ...] = (
    ("arch", "architecture", (ARCH_MODEL_REGISTRY, MODEL_REGISTRY)),
    ("task", "task", (TASK_REGISTRY,)),
    ("criterion", "criterion", (CRITERION_REGISTRY,)),
    ("optimizer", "optimizer", (OPTIMIZER_REGISTRY,)),
    ("lr_scheduler", "lr-scheduler", (LR_SCHEDULER_REGISTRY,)),
)


def check_names(path: str, state: Mapping[str, Any]) -> None:
    """Raise UsageError where the options of a checkpoint name an architecture, task or other part that is not there.

    fairseq looks them up to convert the options of versions before 0.10, and ends in a KeyError.
    """
    args = state.get("args")
    for option, what, registries in REGISTRIES if isinstance(args, Namespace) else ():
        name = getattr(args, option, None)
        known = {each for registry in registries for each in registry}
        if isinstance(name, str) and name not in known:
            near = "".join(f" (the nearest is {each})" for each in get_close_matches(name, known, n=1))
            raise UsageError(
                f"fairseq_localattn: cannot load {path}: it was trained with the {what} {name}, and there is no such "
                f"{what} here{near}; give the --user-dir that it comes from"
            )
