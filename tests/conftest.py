"""Settings for all tests: one thread a process (two processes share two cores), and quiet third-party loggers."""

import logging
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # models.py and references.py, which the tests share
torch.set_num_threads(1)
logging.getLogger("hydra").setLevel(logging.WARNING)


@pytest.fixture(autouse=True)
def keep_logging():
    """The runners of scripts/ silence fairseq in their process, which must not silence the other tests."""
    yield
    logging.disable(logging.NOTSET)
