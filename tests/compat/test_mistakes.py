"""Mistakes in options that fairseq meets after it has read the command line: one line each."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch.multiprocessing.spawn import ProcessRaisedException

from fairseq_localattn.compat.mistakes import Told, check_training, line_of
from fairseq_localattn.errors import UsageError
from support.cli import fairseq

COMMON = {
    "train": "-s xx -t yy --arch transformer_csan_tiny --optimizer adam --max-tokens 300 --max-epoch 1 --no-save --cpu",
    "generate": "-s xx -t yy --cpu",
    "interactive": "-s xx -t yy --cpu --path none.pt",
}
MISTAKES = {
    "train": [
        ("--fp16", "--fp16 needs a GPU, and --cpu is given: leave it out, or give --bf16"),
        ("--tpu", "--tpu needs torch_xla, which is not installed"),
        ("--optimizer localattn_adam --fp16-adam-stats", "--optimizer localattn_adam has its states in fp32: leave it"),
        (
            "--share-all-embeddings --decoder-embed-dim 32",
            "--share-all-embeddings requires --encoder-embed-dim to match",
        ),
        ("--max-source-positions 2", "no sentence is left: the split is empty, or all of it is longer than"),
        ("--best-checkpoint-metric bleu", "--best-checkpoint-metric bleu: the validation does not measure it"),
        ("""--eval-bleu --eval-bleu-args '{"beam":'""", '--eval-bleu-args {"beam":: no JSON, as in \'{"beam": 5}\''),
        ("--log-file /nowhere/log", "No such file or directory: /nowhere/log"),
    ],
    "generate": [
        ("", "--path is missing: give a checkpoint that fairseq-train wrote"),
        ("--path none.pt --beam 0", "--beam 0: give 1 or more"),
        ("--path none.pt --replace-unk", "--replace-unk: fairseq cannot replace unknown words"),
        ("--path none.pt --constraints", "--constraints: fairseq-interactive alone reads them"),
        ("--path none.pt --model-overrides '{x'", "--model-overrides {x: give a dictionary of Python"),
        ("--path none.pt --results-path /dev/null/x", "Not a directory: /dev/null/x"),
        ("--path none.pt --sampling --beam 2", "--sampling requires --nbest to be equal to --beam"),
    ],
    "interactive": [("--batch-size 4 --buffer-size 1", "--batch-size cannot be larger than --buffer-size")],
}
CASES = [(command, *case) for command, cases in MISTAKES.items() for case in cases]


@pytest.mark.parametrize(("command", "words", "line"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_a_mistake_is_one_line(command: str, words: str, line: str, data: Path) -> None:
    done = fairseq(command, data, *shlex.split(f"{COMMON[command]} {words}"), check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr + done.stdout
    (found,) = done.stderr.splitlines()
    assert found.startswith("fairseq_localattn: ") and line in found


def test_a_gpu_without_bf16_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla V100")
    named = {"optimizer": {"_name": "adam"}, "lr_scheduler": {"_name": "fixed"}, "dataset": {"num_workers": 1}}
    common = {"cpu": False, "bf16": True, "fp16": False, "tpu": False}
    for supported in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, found=supported: found)
        with nullcontext() if supported else pytest.raises(UsageError, match="--bf16: Tesla V100 has no bf16: give"):
            check_training(OmegaConf.create({**named, "common": common}))


def test_the_error_of_a_process_is_told_by_its_line() -> None:
    """torch gives the traceback of a process for one of several GPUs as the text of its own error."""
    text = "\n\n-- Process 0 terminated with the following error:\nTraceback (most recent call last):\n  File x\n"
    for last, line in (
        ("fairseq_localattn.errors.UsageError: --save-dir x: cannot be written", "--save-dir x: cannot be written"),
        ("AssertionError: give --max-tokens", "give --max-tokens"),
        ("KeyError: '--max-tokens'", None),
        ("RuntimeError: a bug", None),
    ):
        assert line_of(ProcessRaisedException(text + last + "\n", 0, 1)) == line


def test_hydra_prints_mistakes_alone_without_a_traceback() -> None:
    told = (UsageError("x"), AssertionError("give --max-tokens"), FileNotFoundError(2, "No such file", "x"))
    assert all(isinstance(error, Told) for error in told)
    assert not any(
        isinstance(error, Told) for error in (AssertionError("a bug"), KeyError("--lr"), KeyboardInterrupt())
    )
