"""Hostile checkpoints, given to every command that reads one."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.attacks.commands import assert_one_line, attacked
from support.attacks.hostile import BORDER, CANARY, REFUSED
from support.attacks.world import COMMANDS, World

# One world serves all tests of this file.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("attacks_on_checkpoints")]
HOSTILE = {**REFUSED, **BORDER}
# What a command has no means to see: the shape is right for some other options.
UNSEEN = [(command, "a weight of another shape") for command in ("average", "describe")]
PAIRS = [(command, name) for command in COMMANDS for name in HOSTILE]
# Every file once, and every command with about seven of them.
QUICK = [(list(COMMANDS)[at % len(COMMANDS)], name) for at, name in enumerate(HOSTILE)]


def attack(command: str, name: str, world: World, folder: Path) -> None:
    """Give a file to a command, which must refuse it, or end well where the file is harmless."""
    kind, call = COMMANDS[command]
    path = folder / "checkpoint_last.pt"
    HOSTILE[name](world.state(kind), path)
    main, words = call(world, path)
    outcome = attacked(main, *words, folder=folder)
    assert not (folder / CANARY).exists(), f"code of the checkpoint was run: {outcome}"
    assert_one_line(outcome)
    assert outcome.status != 0 or name in BORDER or (command, name) in UNSEEN, f"accepted: {outcome.out[-1000:]}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_valid_checkpoint_is_read(command: str, world: World, tmp_path: Path) -> None:
    """Each command as it is called here succeeds; without this the refusals would show nothing."""
    kind, call = COMMANDS[command]
    (tmp_path / "checkpoint_last.pt").symlink_to(
        world.folder / {"lm": "lm_model"}.get(kind, kind) / "checkpoint_last.pt"
    )
    main, words = call(world, tmp_path / "checkpoint_last.pt")
    outcome = attacked(main, *words, folder=tmp_path)
    assert outcome.status == 0, outcome.err


@pytest.mark.parametrize(
    ("command", "name"), [pytest.param(*pair, marks=pytest.mark.slow if pair[1] in BORDER else ()) for pair in QUICK]
)
def test_hostile(command: str, name: str, world: World, tmp_path: Path) -> None:
    attack(command, name, world, tmp_path)


@pytest.mark.attack
@pytest.mark.parametrize(("command", "name"), [pair for pair in PAIRS if pair not in QUICK])
def test_hostile_in_every_command(command: str, name: str, world: World, tmp_path: Path) -> None:
    attack(command, name, world, tmp_path)
