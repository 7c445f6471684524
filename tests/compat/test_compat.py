"""What compat.py mends in fairseq: no sentence is dropped, and what is missing is told in one line."""

from __future__ import annotations

import argparse
import importlib
import inspect
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.data import TokenBlockDataset, data_utils

from fairseq_localattn.compat import repairs as compat
from fairseq_localattn.errors import UsageError
from support.cli import USER_DIR, fairseq, make_data

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Hydra's, on how fairseq calls it


@pytest.mark.parametrize("limits", [{"max_tokens": 100}, {"max_sentences": 20}])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 20, 29, 99])
def test_no_sentence_is_dropped_and_none_comes_twice(count, limits):
    """Sentences of 5 tokens, by the function of their lengths and by the array."""
    indices = np.arange(count)[::-1].copy()  # in an order that is not the numbers'
    for lengths in None, np.full(count, 5):
        made = data_utils.batch_by_size(indices, lambda index: 5, lengths, required_batch_size_multiple=8, **limits)
        assert [index for batch in made for index in batch] == indices.tolist()
        assert all(len(batch) % 8 == 0 for batch in made[:-1]) and all(0 < len(batch) <= 20 for batch in made)


def test_a_multiple_of_the_batch_size_is_cut_as_fairseq_cuts_it():
    cut = data_utils.batch_by_size.__wrapped__
    theirs = cut(np.arange(16), lambda index: 5, max_tokens=45, required_batch_size_multiple=8)
    ours = data_utils.batch_by_size(np.arange(16), lambda index: 5, max_tokens=45, required_batch_size_multiple=8)
    assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in theirs]


@pytest.mark.parametrize("by_position", [False, True])
def test_fixed_shapes_are_left_to_fairseq(by_position, monkeypatch):
    """Whatever it returns for them, in stretches or not: here the third and fourth of ten."""

    def cut(
        indices, num_tokens_fn, num_tokens_vec=None, max_tokens=None, max_sentences=None,
        required_batch_size_multiple=1, fixed_shapes=None,
    ):  # fmt: skip
        return [indices[2:4]]

    fairseqs = inspect.unwrap(data_utils.batch_by_size)
    assert inspect.getfullargspec(fairseqs) == inspect.getfullargspec(cut)
    monkeypatch.setattr(data_utils, "batch_by_size", cut)
    compat.keep_last_batch()
    shapes = [(4, 5), (2, 10)]
    if by_position:
        made = data_utils.batch_by_size(np.arange(10), len, None, None, None, 1, shapes)
    else:
        made = data_utils.batch_by_size(np.arange(10), len, fixed_shapes=shapes)
    assert [batch.tolist() for batch in made] == [[2, 3]]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """fairseq-train makes its --save-dir, by default ./checkpoints, before it looks for the data."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return make_data(tmp_path_factory.mktemp("compat"), train=12)


def one_line(command: str, *args: object) -> str:
    """The only line that a failing command says of itself; fairseq's own warnings stand before it on stderr."""
    done = fairseq(command, *args, "--cpu", check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr + done.stdout, done.stderr
    lines = [line for line in done.stderr.splitlines() if "fairseq_localattn:" in line]
    assert lines == done.stderr.splitlines()[-1:]
    return lines[0]


def usage_error(monkeypatch: pytest.MonkeyPatch, command: str, *args: object) -> str:
    """The same of a command that is run in this process, which is quicker."""
    monkeypatch.setattr(sys, "argv", [command, *map(str, args), "--user-dir", str(USER_DIR), "--cpu"])
    with pytest.raises(UsageError) as caught:
        importlib.import_module(f"fairseq_cli.{command}").cli_main()
    assert "\n" not in str(caught.value)
    return str(caught.value)


TRAIN = ["--arch", "transformer_tiny", "--max-tokens", "100"]
LANGUAGES = ["-s", "xx", "-t", "yy"]
FOLDER = "Give the folder that fairseq-preprocess wrote"
CHECKPOINT = "Give --path a checkpoint that fairseq-train wrote"


@pytest.mark.parametrize("command, args", [("train", TRAIN), ("generate", ["--path", "x.pt"])])
def test_a_missing_folder_is_named(command, args, tmp_path):
    line = one_line(command, tmp_path / "nosuch", *args)
    assert f"No such file or directory: {tmp_path / 'nosuch'}. {FOLDER}" in line


@pytest.mark.parametrize("command, args", [("train", TRAIN), ("generate", ["--path", "x.pt"])])
def test_a_missing_dictionary_is_named(command, args, data, tmp_path):
    for file in data.iterdir():
        if file.name.startswith(("train", "test")):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert f"{tmp_path / 'dict.xx.txt'}. {FOLDER}" in one_line(command, tmp_path, *args)


def test_a_missing_checkpoint_is_named(data, tmp_path):
    line = one_line("generate", data, *LANGUAGES, "--path", tmp_path / "x.pt")
    assert f"Model file not found: {tmp_path / 'x.pt'}. {CHECKPOINT}" in line


@pytest.mark.parametrize(
    "command, args",
    [("interactive", LANGUAGES), ("validate", ["--task", "translation", "--max-tokens", "100"]), ("eval_lm", [])],
)
def test_a_missing_checkpoint_is_named_by_the_other_commands(command, args, data, tmp_path, monkeypatch):
    shutil.copy(data / "dict.xx.txt", tmp_path / "dict.txt")  # where fairseq-eval-lm looks for it
    folder = tmp_path if command == "eval_lm" else data
    line = usage_error(monkeypatch, command, folder, *args, "--path", tmp_path / "x.pt")
    assert f"Model file not found: {tmp_path / 'x.pt'}. {CHECKPOINT}" in line


def test_a_folder_of_something_else_is_named(tmp_path, monkeypatch):
    (tmp_path / "thesis.txt").write_text("years of work")
    line = usage_error(monkeypatch, "train", tmp_path, *TRAIN)
    assert f"No data of a language pair in {tmp_path}. {FOLDER}" in line


def test_a_missing_split_is_named(data, tmp_path, monkeypatch):
    args = [*TRAIN, *LANGUAGES, "--valid-subset", "tset", "--save-dir", tmp_path]
    assert f"Dataset not found: tset ({data}). {FOLDER}" in usage_error(monkeypatch, "train", data, *args)


def test_a_missing_folder_of_a_language_model_is_named(tmp_path, monkeypatch):
    args = ["--task", "language_modeling", "--arch", "transformer_lm", *TRAIN[2:]]
    line = usage_error(monkeypatch, "train", tmp_path / "nosuch", *args)
    assert f"No such file or directory: {tmp_path / 'nosuch' / 'dict.txt'}. {FOLDER}" in line


def test_compat_is_applied_once():
    compat.apply()
    original = checkpoint_utils.load_checkpoint_to_cpu.__wrapped__
    assert not hasattr(original, "__wrapped__")


@pytest.mark.parametrize("flags, tpu", [(["--bf16"], False), (["--bf16", "--tpu"], True), ([], False)])
def test_bf16_does_not_turn_on_tpu(flags, tpu, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairseq-train"])
    args = ["data", "--arch", "transformer_tiny", *flags]
    parsed = options.parse_args_and_arch(options.get_training_parser(), args)
    assert isinstance(parsed, argparse.Namespace)
    assert parsed.bf16 == bool(flags) and parsed.tpu is tpu


def test_numpy_has_the_long_that_fairseq_uses():
    lines = [torch.tensor([5, 6, 2]), torch.tensor([7, 2])]
    blocks = TokenBlockDataset(lines, sizes=[3, 2], block_size=4, pad=1, eos=2, break_mode="eos")
    assert [block.tolist() for block in blocks] == [line.tolist() for line in lines]
