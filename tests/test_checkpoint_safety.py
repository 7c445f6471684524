"""Reading a checkpoint never runs code from it, and what fairseq-train writes can be read back everywhere."""

import argparse
import functools
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, options
from omegaconf import OmegaConf

import fairseq_localattn
from fairseq_localattn import checkpoints, compat
from fairseq_localattn.checkpoints import CheckpointError
from fairseq_localattn.errors import UsageError

PACKAGE = Path(fairseq_localattn.__file__).parent
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.xdist_group("checkpoint_safety")  # one training run serves all of this file


class Payload:
    """Unpickled without protection, it creates the file ``marker``."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch '{self.marker}'",)


def run(command: str, *args: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / command, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def train_args(root: Path, save_dir: Path, updates: int) -> list[object]:
    flags = "--arch transformer_tiny --optimizer adam --lr 1e-3 --max-tokens 100 --no-epoch-checkpoints --num-workers 0"
    bleu = "--eval-bleu --eval-bleu-detok space --best-checkpoint-metric bleu --maximize-best-checkpoint-metric"
    return [
        *[root / "bin", "--user-dir", PACKAGE, "--save-dir", save_dir, "--max-update", updates, "--cpu"],
        *[*flags.split(), *bleu.split(), "--eval-bleu-args", '{"beam": 1, "max_len_b": 10}'],
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Binarised data in bin/ and, in ckpt/, what two updates with --eval-bleu leave."""
    root = tmp_path_factory.mktemp("safety")
    for split, lines in ("train", 24), ("valid", 8):
        text = "".join(f"a{i % 5} b{i % 3} c{i % 7}\n" for i in range(lines))
        for language in "de", "en":
            (root / f"{split}.{language}").write_text(text)
    data = "--source-lang de --target-lang en --trainpref train --validpref valid --testpref valid --destdir bin"
    assert run("fairseq-preprocess", *data.split(), "--joined-dictionary", cwd=root).returncode == 0
    shutil.copy(root / "bin" / "dict.en.txt", root / "bin" / "dict.txt")  # where fairseq-eval-lm looks for it
    done = run("fairseq-train", *train_args(root, root / "ckpt", 2), cwd=root)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="module")
def checkpoint(root) -> Path:
    return root / "ckpt" / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def evil(root, checkpoint) -> Path:
    """A working checkpoint with a payload in it. (That the payload works is checked below.)"""
    state = torch.load(checkpoint, weights_only=False)
    state["extra_state"]["payload"] = Payload(root / "marker")
    (root / "evil").mkdir()
    torch.save(state, root / "evil" / "checkpoint_last.pt")
    return root / "evil" / "checkpoint_last.pt"


def test_the_payload_is_live(root, evil):
    torch.load(evil, weights_only=False)
    assert (root / "marker").exists()
    (root / "marker").unlink()


COMMANDS = {
    "fairseq-generate": ["--gen-subset", "valid", "--cpu"],
    "fairseq-interactive": ["--cpu"],
    "fairseq-validate": ["--task", "translation", "--max-tokens", "100", "--cpu"],
    "fairseq-eval-lm": ["--cpu"],
    "fairseq-train": None,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_payload(command, root, evil):
    flags = COMMANDS[command]
    if flags is None:
        args = train_args(root, evil.parent, 4)
    else:
        args = ["bin", "--path", evil, "--user-dir", os.path.relpath(PACKAGE, root), *flags]
    before = evil.read_bytes()
    # The variable by which torch can be told to run code does not open the door either.
    done = run(command, *args, cwd=root, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"fairseq_localattn: refused to load {evil}: it holds ")
    assert f"{os.system.__module__}.system" in last
    assert not (root / "marker").exists()
    assert evil.read_bytes() == before


def test_code_in_an_option_is_refused(root, checkpoint, tmp_path):
    """fairseq evaluates some options: one that is code must not be run when the model is built from a checkpoint."""
    marker = tmp_path / "marker"
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"]["model"].adaptive_softmax_cutoff = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    torch.save(state, tmp_path / "option.pt")
    overrides = {"data": str(root / "bin")}
    with pytest.raises(CheckpointError, match="refused to evaluate the option"):
        checkpoint_utils.load_model_ensemble([str(tmp_path / "option.pt")], arg_overrides=overrides)
    assert not marker.exists()
    checkpoint_utils.load_model_ensemble([str(checkpoint)], arg_overrides=overrides)  # and without it, it loads


@pytest.mark.parametrize(
    "text, value",
    [
        ("(0.9, 0.98)", (0.9, 0.98)),
        ("1e-4", 1e-4),
        ("-1", -1),
        ("10000,20000", (10000, 20000)),
        ("True", True),
        (" [(512, 3)] * 2 + [(768, 1)]", [(512, 3), (512, 3), (768, 1)]),
    ],
)
def test_options_that_fairseq_evaluates_keep_their_values(text, value):
    assert checkpoints.literal_eval(text) == value


@pytest.mark.parametrize("text", ["exit()", "[].append", "lambda: 0", "x", "[i for i in (1,)]", "f'{1}'", "(", ""])
def test_other_expressions_are_refused(text):
    with pytest.raises(CheckpointError):
        checkpoints.literal_eval(text)


def test_every_eval_on_a_checkpoints_options_is_replaced():
    """No module of fairseq's models or utils calls the built-in eval (a new fairseq might in another place)."""
    import fairseq

    root = Path(fairseq.__file__).parent
    found = set()
    for path in [root / "utils.py", *root.glob("models/*.py"), *root.glob("modules/*.py")]:
        if re.search(r"(?<![\w.])(eval|exec)\(", path.read_text("utf-8")):
            found.add(".".join(path.relative_to(root.parent).with_suffix("").parts))
    assert found == set(checkpoints.EVALUATING_MODULES)
    for name in found:
        assert sys.modules[name].eval is checkpoints.literal_eval


def load(path: Path) -> dict:
    return checkpoint_utils.load_checkpoint_to_cpu(str(path))


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    assert isinstance(caught.value, UsageError)
    return message


def test_the_variable_of_torch_is_dropped(evil, root, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    refusal(evil)
    assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" not in os.environ
    assert not (root / "marker").exists()


@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.parametrize(
    "foreign, name",
    [
        (eval, "eval"),
        (functools.partial(print, 1), "functools.partial"),
        (np.array([None, "x"], dtype=object), "numpy.dtypes.ObjectDType"),
        (OmegaConf.create({"a": 1}), "omegaconf"),  # of the broadcast's classes: not in a file
        (Path("x"), "pathlib"),
    ],
)
def test_a_foreign_class_is_named(foreign, name, new_format, tmp_path):
    torch.save({"model": {}, "foreign": foreign}, tmp_path / "x.pt", _use_new_zipfile_serialization=new_format)
    message = refusal(tmp_path / "x.pt")
    assert "refused to load" in message and name in message


def test_damaged_files_are_named(checkpoint, tmp_path):
    whole = checkpoint.read_bytes()
    path = tmp_path / "damaged.pt"
    pieces = [whole[: int(len(whole) * share)] for share in (0, 0.001, 0.5, 0.999)]
    for data in [*pieces, b"not a checkpoint\n", bytes(range(256)) * 8, b"\x80\x02}"]:
        path.write_bytes(data)
        assert "damaged, cut short or no checkpoint" in refusal(path)
    for foreign in ([1, 2], torch.zeros(3), OrderedDict(weight=torch.zeros(2))):  # readable, but not fairseq's
        torch.save(foreign, path)
        assert "no checkpoint of fairseq's" in refusal(path)


def test_a_resume_from_a_damaged_checkpoint_stops_and_keeps_the_file(root, checkpoint, tmp_path):
    damaged = tmp_path / "checkpoint_last.pt"
    damaged.write_bytes(checkpoint.read_bytes()[:-100])
    before = damaged.read_bytes()
    done = run("fairseq-train", *train_args(root, tmp_path, 4), cwd=root)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(f"fairseq_localattn: cannot load {damaged}: ")
    assert damaged.read_bytes() == before and list(tmp_path.iterdir()) == [damaged]


def bleu_counts(state: dict) -> list[np.ndarray]:
    meters = [state for _, _, _, state in state["extra_state"]["metrics"]["valid"]]
    return [meter["sum"] for meter in meters if isinstance(meter.get("sum"), np.ndarray)]


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_bleu_counts_of_either_numpy_can_be_read(module, checkpoint, tmp_path):
    """numpy 1 and 2 write arrays under different module names; the counts must come back exactly."""
    with zipfile.ZipFile(checkpoint) as old, zipfile.ZipFile(tmp_path / "renamed.pt", "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename.endswith("/data.pkl"):
                data, changes = re.subn(rb"numpy\._?core\.multiarray", module.encode(), data)
                assert changes > 0
            new.writestr(item.filename, data)
    counts = bleu_counts(load(tmp_path / "renamed.pt"))
    expected = bleu_counts(torch.load(checkpoint, weights_only=False))
    assert len(counts) == len(expected) == 2  # matches and totals of 1- to 4-grams
    for ours, theirs in zip(counts, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist()


def test_two_processes_resume_what_one_wrote_and_one_reads_what_two_wrote(root, checkpoint, tmp_path):
    """The broadcast of a resume holds omegaconf's classes, and summed BLEU counts are floats: both must pass."""
    shutil.copy(checkpoint, tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = f"--distributed-world-size 2 --distributed-init-method tcp://127.0.0.1:{port} --distributed-no-spawn"
    flags += " --distributed-backend gloo --ddp-backend legacy_ddp"
    workers = []
    for rank in range(2):
        args = [*train_args(root, tmp_path, 4), *flags.split(), "--distributed-rank", rank]
        with open(tmp_path / f"{rank}.log", "w") as log:
            workers.append(
                subprocess.Popen(
                    [BIN / "fairseq-train", *map(str, args)],
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
            )
    try:
        codes = [worker.wait(timeout=120) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    logs = [(tmp_path / f"{rank}.log").read_text() for rank in range(2)]
    assert codes == [0, 0], "\n".join(logs)
    assert "Loaded checkpoint" in logs[0] and "@ 2 updates" in logs[0]
    state = load(tmp_path / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 4
    assert {counts.dtype for counts in bleu_counts(state)} == {np.dtype("float64")}
    # The classes of the broadcast are allowed during the broadcast only.
    assert not set(map(id, checkpoints.BROADCAST_CLASSES)) & set(map(id, torch.serialization.get_safe_globals()))


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
    from fairseq.data import TokenBlockDataset

    lines = [torch.tensor([5, 6, 2]), torch.tensor([7, 2])]
    blocks = TokenBlockDataset(lines, sizes=[3, 2], block_size=4, pad=1, eos=2, break_mode="eos")
    assert [block.tolist() for block in blocks] == [line.tolist() for line in lines]
