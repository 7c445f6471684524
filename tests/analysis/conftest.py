"""The data that the commands of the analyses read."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import make_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("data"), train=40)
