"""Settings for all tests: one thread a process (two processes share two cores), and quiet third-party loggers."""

import logging
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))  # models.py and references.py, which the tests share
torch.set_num_threads(1)
logging.getLogger("hydra").setLevel(logging.WARNING)
