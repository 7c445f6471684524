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
    kept = leave_out_attacks(items, config.getoption("--attacks"))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def leave_out_attacks(items: list[pytest.Item], asked: bool) -> list[pytest.Item]:
    """Return the tests that are not marked attack, or all of them where those are ``asked`` for."""
    return [item for item in items if asked or not item.get_closest_marker("attack")]
