"""Settings for all tests: one thread a process (two processes share two cores), and quiet third-party loggers."""

import logging
import os

import pytest
import torch

from support.paths import DATA_PREP, SCRIPTS

torch.set_num_threads(1)
logging.getLogger("hydra").setLevel(logging.WARNING)
# For modules of corpora and experiments that tests start as subprocesses by ``python -m``.
os.environ["PYTHONPATH"] = f"{DATA_PREP}{os.pathsep}{SCRIPTS}"


@pytest.fixture(autouse=True)
def keep_logging():
    """Take back ``logging.disable``, by which the runners of scripts/ silence fairseq in their process."""
    yield
    logging.disable(logging.NOTSET)
