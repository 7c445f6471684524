"""Data that all tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import make_data


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the binarised data: letters to be reversed, with phrases of the source."""
    return make_data(tmp_path_factory.mktemp("reverse"))
