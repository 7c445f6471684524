"""Warnings that fairseq's use of Hydra and torch prints at every command, and that a user of fairseq cannot act on."""

from __future__ import annotations

import logging
import os
import warnings

#: Category and beginning of each warning that is hidden, as a regular expression: only these, and from nothing else.
HIDDEN: list[tuple[type[Warning], str]] = [
    # fairseq composes its configuration with Hydra as of version 1.0.
    (UserWarning, r"hydra\.experimental\.(initialize|compose)\(\) is no longer experimental"),
    (UserWarning, r"\s*The version_base parameter is not specified"),
    (UserWarning, r"\s*The strict flag in the compose API is deprecated"),
    (UserWarning, r"In '\w+': Usage of deprecated keyword in package header '# @package _group_'"),
    (UserWarning, r"\s*'\w+' is validated against ConfigStore schema with the same name"),
    # fairseq enters autocast in every step, by its old name, and turns it off where --amp is not given.
    (FutureWarning, r"`torch\.cuda\.amp\.(autocast|GradScaler)\(args\.\.\.\)` is deprecated"),
    # fairseq's data loader always asks for it, and it is for GPUs.
    (UserWarning, r"'pin_memory' argument is set as true but no accelerator is found"),
]


def hide() -> None:
    """Hide the warnings of :data:`HIDDEN`, Hydra's messages for its own developers, and the tracebacks of mistakes.

    A filter that the user has set (``python -W``, ``PYTHONWARNINGS``) comes before these. LOGLEVEL=DEBUG shows the
    tracebacks; most of fairseq's commands set the root logger to DEBUG by their imports.
    """
    for category, message in HIDDEN:
        warnings.filterwarnings("ignore", message, category, append=True)
    logging.getLogger("hydra.core.utils").setLevel(logging.INFO)
    if os.environ.get("LOGLEVEL", "").upper() != "DEBUG":
        logging.getLogger(__package__).setLevel(logging.INFO)
