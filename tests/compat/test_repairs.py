"""Repairs of fairseq: no sentence is dropped, and missing files are named in one line."""

from __future__ import annotations

import argparse
import inspect
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.data import Dictionary, TokenBlockDataset, data_utils
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from fairseq.search import DiverseBeamSearch
from fairseq.tokenizer import tokenize_line

from fairseq_localattn.compat import repairs
from support.cli import fairseq, make_data

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Hydra's, on how fairseq calls it


@pytest.mark.parametrize("limits", [{"max_tokens": 100}, {"max_sentences": 20}])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 13, 16, 20, 29, 99])
def test_no_sentence_is_dropped_and_none_comes_twice(count, limits):
    """Sentences of 5 tokens, their lengths given as a function and as an array."""
    indices = np.arange(count)[::-1].copy()  # not in ascending order
    for lengths in None, np.full(count, 5):
        made = data_utils.batch_by_size(indices, lambda index: 5, lengths, required_batch_size_multiple=8, **limits)
        assert [index for batch in made for index in batch] == indices.tolist()
        assert all(len(batch) % 8 == 0 for batch in made[:-1]) and all(0 < len(batch) <= 20 for batch in made)


def test_full_batches_are_those_of_fairseq():
    cut = data_utils.batch_by_size.__wrapped__
    theirs = cut(np.arange(16), lambda index: 5, max_tokens=45, required_batch_size_multiple=8)
    ours = data_utils.batch_by_size(np.arange(16), lambda index: 5, max_tokens=45, required_batch_size_multiple=8)
    assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in theirs]


@pytest.mark.parametrize("by_position", [False, True])
def test_batches_of_fixed_shapes_are_those_of_fairseq(by_position, monkeypatch):
    """Here only the third and fourth of ten sentences."""

    def cut(
        indices, num_tokens_fn, num_tokens_vec=None, max_tokens=None, max_sentences=None,
        required_batch_size_multiple=1, fixed_shapes=None,
    ):  # fmt: skip
        return [indices[2:4]]

    fairseqs = inspect.unwrap(data_utils.batch_by_size)
    assert inspect.getfullargspec(fairseqs) == inspect.getfullargspec(cut)
    monkeypatch.setattr(data_utils, "batch_by_size", cut)
    repairs.keep_last_batch()
    shapes = [(4, 5), (2, 10)]
    if by_position:
        made = data_utils.batch_by_size(*(np.arange(10), len, None, None, None, 1, shapes))
    else:
        made = data_utils.batch_by_size(np.arange(10), len, fixed_shapes=shapes)
    assert [batch.tolist() for batch in made] == [[2, 3]]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return make_data(tmp_path_factory.mktemp("compat"), train=12)


def refusal(command: str, *args: object) -> str:
    """Return the only line that a failing command prints on stderr."""
    done = fairseq(command, *args, "--cpu", check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("fairseq_localattn: ") and "Traceback" not in done.stdout
    return line


TRAIN = ["--arch", "transformer_tiny", "--max-tokens", "100"]
LANGUAGES = ["-s", "xx", "-t", "yy"]
FOLDER = "Give the folder that fairseq-preprocess wrote"
CHECKPOINT = "Give --path a checkpoint that fairseq-train wrote"


@pytest.mark.parametrize("command, args", [("train", TRAIN), ("generate", ["--path", "x.pt"])])
def test_missing_folder_is_named(command, args, tmp_path):
    line = refusal(command, tmp_path / "missing", *args)
    assert f"No such file or directory: {tmp_path / 'missing'}. {FOLDER}" in line


@pytest.mark.parametrize("command, args", [("train", TRAIN), ("generate", ["--path", "x.pt"])])
def test_missing_dictionary_is_named(command, args, data, tmp_path):
    for file in data.iterdir():
        if file.name.startswith(("train", "test")):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert f"{tmp_path / 'dict.xx.txt'}. {FOLDER}" in refusal(command, tmp_path, *args)


@pytest.mark.parametrize(
    "command, args",
    [
        ("generate", LANGUAGES),
        ("interactive", LANGUAGES),
        ("validate", ["--task", "translation", "--max-tokens", "100"]),
        ("eval-lm", []),
    ],
)
def test_missing_checkpoint_is_named(command, args, data, tmp_path):
    shutil.copy(data / "dict.xx.txt", tmp_path / "dict.txt")  # fairseq-eval-lm reads this file
    folder = tmp_path if command == "eval-lm" else data
    line = refusal(command, folder, *args, "--path", tmp_path / "x.pt")
    assert f"Model file not found: {tmp_path / 'x.pt'}. {CHECKPOINT}" in line


def test_folder_without_data_is_named(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    line = refusal("train", tmp_path, *TRAIN)
    assert f"No data of a language pair in {tmp_path}. {FOLDER}" in line


def test_missing_split_is_named(data, tmp_path):
    line = refusal("train", data, *TRAIN, *LANGUAGES, "--valid-subset", "tset")
    assert f"Dataset not found: tset ({data}). {FOLDER}" in line


def test_missing_folder_of_a_language_model_is_named(tmp_path):
    args = ["--task", "language_modeling", "--arch", "transformer_lm", *TRAIN[2:]]
    line = refusal("train", tmp_path / "missing", *args)
    assert f"No such file or directory: {tmp_path / 'missing' / 'dict.txt'}. {FOLDER}" in line


def test_repairs_are_applied_once():
    repairs.apply()
    original = checkpoint_utils.load_checkpoint_to_cpu.__wrapped__
    assert not hasattr(original, "__wrapped__")


@pytest.mark.parametrize("flags, tpu", [(["--bf16"], False), (["--bf16", "--tpu"], True), ([], False)])
def test_bf16_does_not_turn_on_tpu(flags, tpu, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train"])
    args = ["data", "--arch", "transformer_tiny", *flags]
    parsed = options.parse_args_and_arch(options.get_training_parser(), args)
    assert isinstance(parsed, argparse.Namespace)
    assert parsed.bf16 == bool(flags) and parsed.tpu is tpu


def test_bpe_splits_words_at_all_white_space(tmp_path):
    """What fairseq's dictionary reads of the subwords are those of the words, one by one."""
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\n")
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(codes)))
    for space in ("\u00a0", "\u3000", "\t", "  "):
        assert tokenize_line(bpe.encode(f"47{space}346 ab")) == "4@@ 7 3@@ 4@@ 6 ab".split()


def test_numpy_has_the_type_long_that_fairseq_uses():
    lines = [torch.tensor([5, 6, 2]), torch.tensor([7, 2])]
    blocks = TokenBlockDataset(lines, sizes=[3, 2], block_size=4, pad=1, eos=2, break_mode="eos")
    assert [block.tolist() for block in blocks] == [line.tolist() for line in lines]


def test_diverse_beams_do_not_depend_on_the_numbers_of_the_sentences():
    """A batch of three sentences, of which the first ends after two steps, by its numbers in the data and by 0 to 2."""
    found = []
    for numbers in torch.tensor([11, 4, 1]), torch.arange(3):
        search, random = DiverseBeamSearch(Dictionary(), 2, 0.5), torch.Generator().manual_seed(1)
        scores = torch.zeros(3, 4, 1)
        for step, kept in enumerate((slice(None), slice(None), slice(1, None), slice(1, None))):
            lprobs = torch.randn(3, 4, 9, generator=random).log_softmax(-1)[kept]
            found.append(search.step(step, lprobs, scores[kept].expand(-1, -1, max(step, 1)), None, numbers[kept]))
    for theirs, ours in zip(found[:4], found[4:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))
