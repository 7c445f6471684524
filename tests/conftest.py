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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the long attacks; ``scripts/test.sh --attacks`` gives it."""
    parser.addoption("--attacks", action="store_true", help="run the tests that are marked attack as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long attacks unless ``--attacks`` is given."""
    if config.getoption("--attacks"):
        return
    left_out = [item for item in items if item.get_closest_marker("attack")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
