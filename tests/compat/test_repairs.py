"""Repairs of fairseq: no sentence is dropped, and missing files are named in one line."""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.data import Dictionary, FairseqDataset, TokenBlockDataset, data_utils
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.search import DiverseBeamSearch
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tokenizer import tokenize_line
from omegaconf import OmegaConf
from torch import nn
from torch.testing import assert_close

from fairseq_localattn.compat import repairs
from support.checkpoints import checkpoint
from support.cli import fairseq, train_flags
from support.models import build

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Hydra's, on how fairseq calls it


@pytest.mark.parametrize("limits", [{"max_tokens": 100}, {"max_sentences": 20}])
@pytest.mark.parametrize("count", [0, 7, 8, 13, 99])
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


def test_batches_of_fixed_shapes_are_those_of_fairseq(monkeypatch):
    """Here only the third and fourth of ten sentences; it may be given by position."""
    cut = functools.wraps(data_utils.batch_by_size)(lambda indices, *_, **__: [indices[2:4]])
    monkeypatch.setattr(data_utils, "batch_by_size", cut)
    repairs.keep_last_batch()
    for words, named in (((None, None, None, 1, [(4, 5)]), {}), ((), {"fixed_shapes": [(4, 5)]})):
        made = data_utils.batch_by_size(np.arange(10), len, *words, **named)
        assert [batch.tolist() for batch in made] == [[2, 3]]


TRAIN = ["--arch", "transformer_tiny", "--max-tokens", "100"]
LANGUAGES = ["-s", "xx", "-t", "yy"]
LM = ["--task", "language_modeling", "--arch", "transformer_lm"]
FOLDER = "Give the folder that fairseq-preprocess wrote"
CHECKPOINT = "Give --path a checkpoint that fairseq-train wrote"


@pytest.mark.parametrize(
    ("command", "folder", "words", "said"),
    [
        ("train", "missing", TRAIN, f"No such file or directory: missing. {FOLDER}"),
        ("train", "missing", [*LM, *TRAIN[2:]], f"No such file or directory: missing/dict.txt. {FOLDER}"),
        ("generate", "cut", ["--path", "x.pt"], f"cut/dict.xx.txt. {FOLDER}"),
        ("train", "other", TRAIN, f"No data of a language pair in other. {FOLDER}"),
        ("train", "bin", [*TRAIN, *LANGUAGES, "--valid-subset", "tset"], f"Dataset not found: tset (bin). {FOLDER}"),
        ("generate", "bin", [*LANGUAGES, "--path", "x.pt"], f"Model file not found: x.pt. {CHECKPOINT}"),
    ],
)
def test_what_is_missing_is_named(command, folder, words, said, data, tmp_path, monkeypatch):
    """In one line, with what to give."""
    monkeypatch.chdir(tmp_path)
    for name in ("cut", "other"):
        Path(name).mkdir()
    Path("bin").symlink_to(data)
    for file in data.glob("test.*"):
        shutil.copy(file, "cut")
    Path("other/thesis.txt").write_text("years of work")
    done = fairseq(command, folder, *words, "--cpu", check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("fairseq_localattn: ") and "Traceback" not in done.stdout
    assert said in line


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


class Shuffled(FairseqDataset):
    """Forty sentences in random order."""

    can_reuse_epoch_itr_across_epochs = True

    def __len__(self):
        return 40

    def ordered_indices(self):
        return np.random.permutation(40)

    def num_tokens(self, index):
        return 1


def test_batches_of_later_epochs_are_new_for_data_in_several_folders_alone():
    task = FairseqTask(argparse.Namespace())

    def batches(epoch, **more):
        iterator = task.get_batch_iterator(Shuffled(), max_sentences=4, seed=1, epoch=epoch, **more)
        return [list(batch) for batch in iterator.frozen_batches]

    assert batches(1) == batches(2)
    several = {"disable_iterator_cache": True}
    assert batches(1, **several) != batches(2, **several) == batches(2, **several)


def test_the_scale_of_amp_divides_once(monkeypatch):
    monkeypatch.setattr("torch.cuda.amp.GradScaler", functools.partial(torch.amp.GradScaler, "cpu"))
    sgd = {"_name": "sgd", "momentum": 0.0, "weight_decay": 0.0, "lr": [1.0]}
    common = {"fp16_init_scale": 128, "min_loss_scale": 1e-4}
    parameter = nn.Parameter(torch.ones(3))
    optimizer = AMPOptimizer.build_optimizer(OmegaConf.create({"common": common, "optimizer": sgd}), [parameter])
    optimizer.backward((parameter * 2).sum())
    optimizer.clip_grad_norm(0.0)
    optimizer.step()
    assert_close(parameter.detach(), torch.full((3,), -1.0))


@pytest.mark.slow
def test_an_average_begins_with_the_weights_of_a_checkpoint_without_one(data, tmp_path):
    folder, ema = tmp_path / "run", {"store_ema": True, "ema_decay": 0.5, "ema_fp32": True}
    fairseq("train", *train_flags(data, "transformer_mma_tiny", folder, 2))
    shutil.copy(folder / "checkpoint_last.pt", tmp_path / "before.pt")
    fairseq("train", *train_flags(data, "transformer_mma_tiny", folder, 3, **ema))
    found = checkpoint(folder / "checkpoint_last.pt")
    before, after = checkpoint(tmp_path / "before.pt")["model"], found["model"]
    for name, average in found["extra_state"]["ema"].items():
        assert_close(average, (before[name] + after[name]) / 2, rtol=1e-4, atol=1e-5)
    fairseq("train", *train_flags(data, "transformer_mma_tiny", folder, 4, **ema))
    again, last = checkpoint(folder / "checkpoint_last.pt"), found["extra_state"]["ema"]
    for name, average in again["extra_state"]["ema"].items():
        assert_close(average, (last[name] + again["model"][name]) / 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("half", "fp32"), [(False, False), (False, True), (True, True)])
def test_an_average_moves_shared_embeddings_once_and_keeps_all_norms(half, fp32):
    model = build("transformer_man_tiny").requires_grad_(False).to(torch.half if half else torch.float)
    average = build_ema(model, EMAConfig(store_ema=True, ema_decay=0.5, ema_fp32=fp32), None)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    last = "encoder.layer_norm.", "decoder.layer_norm."
    old = {name: x for name, x in before.items() if not name.startswith(last)}
    average.restore({**old, "encoder.version": torch.ones(1), "decoder.version": torch.ones(1)})  # fairseq's own
    for parameter in model.parameters():
        parameter.add_(1)
    average.step(model)
    moved = average.get_model().state_dict()
    assert moved.keys() == before.keys()
    for found in moved, average.fp32_params:
        for name in dict(model.named_parameters(remove_duplicate=False)).keys() & found.keys():
            assert_close(found[name].float(), before[name].float() + 0.5, rtol=0, atol=2e-3, msg=name)
