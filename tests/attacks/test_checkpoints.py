"""Hostile checkpoints, given to every command that reads one."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.attacks.commands import Outcome, assert_bounded, attacked
from support.attacks.hostile import BORDER, CANARY, REFUSED
from support.attacks.world import COMMANDS, NO_CHECKPOINT, World

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("attacks")]  # one world serves all
HOSTILE = {**REFUSED, **BORDER}
READERS = [name for name in COMMANDS if name not in NO_CHECKPOINT]
# Code in every command, and every other file in one of them.
CODE = [(command, "os.system in model") for command in READERS]
PAIRS = CODE + [(READERS[at % len(READERS)], name) for at, name in enumerate(HOSTILE) if name != CODE[0][1]]
# What a command has no means to see: the shape is right for some other options.
UNSEEN = [(command, "a weight of another shape") for command in ("average", "describe")]


def given(command: str, world: World, path: Path) -> Outcome:
    """Give a checkpoint to a command."""
    data = world.data(command)
    return attacked(lambda: COMMANDS[command].run(world, data, path), path.parent)


@pytest.mark.parametrize("command", READERS)
def test_a_valid_checkpoint_is_read(command: str, world: World, tmp_path: Path) -> None:
    """Each command as it is called here succeeds; without this the refusals would show nothing."""
    (tmp_path / "checkpoint_last.pt").symlink_to(world.model(COMMANDS[command].kind))
    outcome = given(command, world, tmp_path / "checkpoint_last.pt")
    assert outcome.status == 0, outcome.err


@pytest.mark.parametrize(("command", "name"), PAIRS)
def test_hostile(command: str, name: str, world: World, tmp_path: Path) -> None:
    """It is refused, or the command ends well where the file is harmless."""
    path = tmp_path / "checkpoint_last.pt"
    HOSTILE[name](world.state(COMMANDS[command].kind), path)
    outcome = given(command, world, path)
    assert not (tmp_path / CANARY).exists(), f"code of the checkpoint was run: {outcome}"
    assert_bounded(outcome)
    assert outcome.status != 0 or name in BORDER or (command, name) in UNSEEN, f"accepted: {outcome.out[-1000:]}"
