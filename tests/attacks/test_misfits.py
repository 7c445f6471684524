"""Lines that cannot be translated, checkpoints that do not fit, damaged data: one line says where and what."""

from __future__ import annotations

import importlib
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_localattn.errors import UsageError
from fairseq_localattn.models.transformer import LocalTransformerModel
from support.attacks.world import PAIR, READERS, TREES, World, assert_one_line, evaluated
from support.cli import USER_DIR, call, fairseq, train_flags

pytestmark = pytest.mark.xdist_group("attacks")  # one world serves all
#: The input → what the error says; None: a line for each of the input's.
INPUTS: dict[str, tuple[bytes, str | None]] = {
    "too long": (b"a\n\n" + b"a " * 1500 + b"\n", "given:3: 1501 tokens, and the model reads 1024: shorten or split"),
    "invalid UTF-8": (b"a b\nc\na \xff b\n", "given:3: invalid UTF-8 at byte 3 of the line"),
    "empty lines": (b"\n\na b\n\nb", None),
}


@pytest.mark.parametrize("given", INPUTS)
def test_lines_of_interactive_use(given: str, world: World, tmp_path: Path) -> None:
    text, says = INPUTS[given]
    (tmp_path / "given").write_bytes(text)
    words = ["--input", tmp_path / "given", "--buffer-size", 1, "--batch-size", 1]
    done = evaluated("interactive", *PAIR, *words)(world.data, world.model())
    if says is None:
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\nH-") == len(text.splitlines()), done.stdout
    else:
        assert_one_line(done, f"{tmp_path}/{says}")


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("a " * 1500, "sentence 2: 1501 tokens, and the model reads 1024: shorten or split"),
        ("a \udcff", r"'a \udcff': no valid text at character 3"),
        (b"a", "b'a': a sentence is a string"),
    ],
    ids=["too long", "no text", "bytes"],
)
@pytest.mark.parametrize("given", [{}, {"trees": ["()", "()"]}], ids=["text", "trees"])
def test_sentences_in_python(sentence: Any, says: str, given: Any, world: World) -> None:
    path = world.model("mgsa" if given else "csan")
    model = LocalTransformerModel.from_pretrained(path.parent, path.name, world.data)
    with pytest.raises(UsageError) as error:
        model.translate(["a", sentence], **given)
    assert says in str(error.value) and "\n" not in str(error.value)
    assert model.translate(["", "a"], max_len_a=0, max_len_b=3, **given)


@pytest.mark.parametrize("command", ["from_pretrained", "validate", "train --restore-file"])
def test_a_dictionary_that_does_not_fit(command: str, world: World, tmp_path: Path) -> None:
    """Misfits of options: tests/compat/training/test_same_model.py."""
    data = world.copy_of_data(tmp_path)
    for language in "xx", "yy":
        with (data / f"dict.{language}.txt").open("a") as file:
            file.write("new 1\n")
    says = "3 tensors of another size, encoder.embed_tokens.weight (16×64, the model's is 17×64)"
    assert_one_line(READERS[command](data, world.model()), str(world.model()), says)


def without_the_last(state: dict[str, Any]) -> None:
    state["param_groups"][0]["params"].pop()


def of_another_shape(state: dict[str, Any]) -> None:
    state["state"][1]["exp_avg_sq"] = torch.zeros(3, 5)


@pytest.mark.parametrize(
    ("change", "optimizer", "says"),
    [
        (without_the_last, "adam", r"the optimizer's state is of \d+ tensors, and this training has \d+: give"),
        (of_another_shape, "localattn_adam", r"the optimizer's exp_avg_sq 1 is 3×5, the model's tensor \d+"),
    ],
)
def test_a_state_of_the_optimizer_that_does_not_fit(
    change: Any, optimizer: str, says: str, world: World, tmp_path: Path
) -> None:
    checkpoint = torch.load(world.model(), weights_only=True)
    change(checkpoint["last_optimizer_state"])
    path = tmp_path / "checkpoint.pt"
    torch.save(checkpoint, path)
    flags = {"restore_file": path, "no_save": True, "optimizer": optimizer}
    words = train_flags(world.data, "transformer_csan_tiny", tmp_path / "run", 3, **flags)
    done = fairseq("train", *words, check=False)
    assert_one_line(done, str(path), "--reset-optimizer")
    assert re.search(says, done.stderr)


def put(place: int, new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: ``new`` ones from ``place`` on."""
    return lambda old: old[:place] + new + old[place + len(new) :]


# Other damages: tests/compat/test_data.py, tests/phrases/test_subwords.py, tests/tasks.
@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("dict.xx.txt", lambda old: b"\xff 3\n" + old, ":1: invalid UTF-8"),
        ("xx.phrases.json", lambda _: b"\xff", ": damaged (UnicodeDecodeError"),
        ("xx.phrases.json", lambda _: b'{"levels": 0, "subwords": "none"}', ": damaged: 0 levels"),
        ("test.xx-yy.xx.bin", put(0, b"\xff\xfe"), "number 65279 of a word, and the dictionary has"),
        ("test.xx-yy.xx.phrases.bin", put(8, struct.pack("<i", 1 << 30)), "sentence 1: packed phrases of"),
    ],
)
def test_damaged_data(name: str, change: Callable[[bytes], bytes], says: str, world: World, tmp_path: Path) -> None:
    file = world.copy_of_data(tmp_path) / name
    file.write_bytes(change(file.read_bytes()))
    assert_one_line(READERS["locality"](file.parent, world.model("mgsa")), str(file).rpartition(".")[0], says)


def test_damage_that_another_process_meets(world: World, tmp_path: Path) -> None:
    """torch gives the error of such a process with its traceback; what is left is its line."""
    data = world.copy_of_data(tmp_path)
    file = data / "train.xx-yy.xx.phrases.bin"
    file.write_bytes(put(8, struct.pack("<i", -1))(file.read_bytes()))  # the number of phrases
    words = train_flags(data, "transformer_mgsa_tiny", tmp_path / "run", 1, task=TREES, no_save=True)
    main = importlib.import_module("fairseq_cli.train").cli_main
    done = call(main, *words, "--num-workers", 1, "--user-dir", USER_DIR, check=False)
    assert_one_line(done, f"{file}: sentence 1: packed phrases of")
