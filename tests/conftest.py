"""Settings for all tests: one thread a process (two processes share two cores), and quiet third-party loggers."""

import logging
import os
import signal
from pathlib import Path

import pytest
import torch

from support import device
from support.kernels import ask_for_the_interpreter
from support.paths import DATA_PREP, SCRIPTS

torch.set_num_threads(1)
ask_for_the_interpreter()
logging.getLogger("hydra").setLevel(logging.WARNING)
# For modules of corpora and experiments that tests start as subprocesses by ``python -m``.
os.environ["PYTHONPATH"] = f"{DATA_PREP}{os.pathsep}{SCRIPTS}"


@pytest.fixture(autouse=True)
def keep_logging():
    """Take back what commands set for their process: ``logging.disable``, and the levels of the analyses' loggers."""
    levels = {logger: logger.level for logger in map(logging.getLogger, ("root", "fairseq.logging.progress_bar"))}
    yield
    logging.disable(logging.NOTSET)
    for logger, level in levels.items():
        logger.setLevel(level)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the binarised data, to be read: letters to be reversed, with phrases of the source."""
    from support.cli import make_data  # not in tests without it: it imports fairseq

    return make_data(tmp_path_factory.mktemp("reverse"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--attacks``, which ``scripts/test.sh --attacks`` gives, and the options of the contract suite."""
    parser.addoption("--attacks", action="store_true", help="run the tests that are marked attack as well")
    parser.addoption("--device", choices=device.DEVICES, default="cpu", help="of tests/contract (default: cpu)")
    parser.addoption(
        "--precision", choices=tuple(device.PRECISIONS), default="fp32", help="of the models in tests/contract"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Hand the contract suite its device and precision; let SIGTERM end a session as Ctrl-C does, with its failures."""
    device.choose(config.getoption("--device"), config.getoption("--precision"))
    if not hasattr(config, "workerinput"):  # of pytest-xdist
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the options do not ask for: the long attacks, and tests with a precision of their own.

    Tests of a device that is not there are skipped. Tests of a file that share a fixture of the scope "module" are a
    group for pytest-xdist, in whose other workers the fixture would be made again.
    """
    without = [] if config.getoption("--attacks") else ["attack"]
    without += [] if config.getoption("--precision") == "fp32" else ["own_precision"]
    asked = [not any(map(item.get_closest_marker, without)) for item in items]
    if left_out := [item for item, wanted in zip(items, asked, strict=True) if not wanted]:
        items[:] = [item for item, wanted in zip(items, asked, strict=True) if wanted]
        config.hook.pytest_deselected(items=left_out)
    if reason := device.lacking(config.getoption("--device")):
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"--device {config.getoption('--device')}: {reason}"))
    for item in items if config.pluginmanager.hasplugin("xdist") else ():
        fixtures = [each for found in item._fixtureinfo.name2fixturedefs.values() for each in found]  # type: ignore[attr-defined]
        if any(each.scope == "module" for each in fixtures) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
