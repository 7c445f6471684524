"""The world that the attacks on checkpoints share."""

from __future__ import annotations

import pytest

from support.attacks.world import World, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))
