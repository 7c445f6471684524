"""Safety of checkpoints: code in them is not run, and files that fairseq-train writes are read by every command."""

import ast
import contextlib
import functools
import importlib
import os
import re
import shutil
import socket
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

import fairseq_localattn
from fairseq_localattn.compat import safe_reading
from fairseq_localattn.errors import UsageError
from fairseq_localattn.stored.reading import CheckpointError
from support.cli import fairseq as command
from support.forked import started

PACKAGE = Path(fairseq_localattn.__file__).parent

pytestmark = pytest.mark.xdist_group("checkpoint_safety")  # one training serves all tests of this file


class Payload:
    """An object that creates the file ``marker`` when it is unpickled without protection."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch '{self.marker}'",)


def train_args(root: Path, save_dir: Path, updates: int) -> list[object]:
    """Return the arguments of a short training with --eval-bleu."""
    flags = "--arch transformer_tiny --optimizer adam --lr 1e-3 --max-tokens 100 --no-epoch-checkpoints"
    bleu = "--eval-bleu --eval-bleu-detok space --best-checkpoint-metric bleu --maximize-best-checkpoint-metric"
    return [
        *[root / "bin", "--save-dir", save_dir, "--max-update", updates, "--cpu"],
        *[*flags.split(), *bleu.split(), "--eval-bleu-args", '{"beam": 1, "max_len_b": 10}'],
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A folder with binarised data in bin/ and the checkpoints of two updates with --eval-bleu in ckpt/."""
    root = tmp_path_factory.mktemp("safety")
    for split, lines in ("train", 24), ("valid", 8):
        text = "".join(f"a{i % 5} b{i % 3} c{i % 7}\n" for i in range(lines))
        for language in "de", "en":
            (root / f"{split}.{language}").write_text(text)
    prefixes = ["--trainpref", root / "train", "--validpref", root / "valid", "--testpref", root / "valid"]
    command("preprocess", "-s", "de", "-t", "en", *prefixes, "--destdir", root / "bin", "--joined-dictionary")
    shutil.copy(root / "bin" / "dict.en.txt", root / "bin" / "dict.txt")  # fairseq-eval-lm reads this file
    command("train", *train_args(root, root / "ckpt", 2))
    return root


@pytest.fixture(scope="module")
def checkpoint(root) -> Path:
    return root / "ckpt" / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def evil(root, checkpoint) -> Path:
    """A valid checkpoint with a payload in it."""
    state = torch.load(checkpoint, weights_only=False)
    state["extra_state"]["payload"] = Payload(root / "marker")
    (root / "evil").mkdir()
    torch.save(state, root / "evil" / "checkpoint_last.pt")
    return root / "evil" / "checkpoint_last.pt"


@pytest.mark.slow
def test_the_payload_runs_without_protection(root, evil):
    torch.load(evil, weights_only=False)
    assert (root / "marker").exists()
    (root / "marker").unlink()


VALIDATE = ["--task", "translation", "--max-tokens", "100", "--cpu"]
COMMANDS = {
    "generate": ["--gen-subset", "valid", "--cpu"],
    "interactive": ["--cpu"],
    "validate": VALIDATE,
    "eval-lm": ["--cpu"],
    "train": None,
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_a_payload(name, root, evil, monkeypatch):
    flags = COMMANDS[name]
    args = train_args(root, evil.parent, 4) if flags is None else [root / "bin", "--path", evil, *flags]
    before = evil.read_bytes()
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # torch's variable for unsafe loading
    done = command(name, *args, check=False)
    assert done.returncode == 1, done.stderr
    (last,) = done.stderr.strip().splitlines()
    assert last.startswith(f"fairseq_localattn: refused to load {evil}: it holds ")
    assert f"{os.system.__module__}.system" in last
    assert not (root / "marker").exists()
    assert evil.read_bytes() == before


# Options that fairseq evaluates when it builds the parts of a checkpoint: module → (part of cfg, _name, option).
CODE_IN_OPTIONS = {
    "fairseq.utils": ("model", "transformer", "adaptive_softmax_cutoff"),
    "fairseq.models.wav2vec.wav2vec2": ("model", "wav2vec2", "conv_feature_layers"),
    "fairseq.models.wav2vec.wav2vec": ("model", "wav2vec", "conv_feature_layers"),
    "fairseq.criterions.ctc": ("criterion", "ctc", "wer_args"),
}


def with_code(checkpoint: Path, module: str, marker: Path, path: Path) -> Path:
    """Write a checkpoint whose option that ``module`` evaluates has code that would create ``marker``."""
    part, name, option = CODE_IN_OPTIONS[module]
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"][part] = {"_name": name, option: f"__import__('pathlib').Path({str(marker)!r}).touch()"}
    torch.save(state, path)
    return path


def build(path: Path, root: Path) -> None:
    """Build model, task and criterion of a checkpoint as fairseq-validate does."""
    overrides = {"data": str(root / "bin")}
    _, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides=overrides)
    task.build_criterion(cfg.criterion)


@pytest.mark.slow
@pytest.mark.parametrize("module", CODE_IN_OPTIONS)
def test_code_in_an_option_is_refused(module, root, checkpoint, tmp_path, monkeypatch):
    marker = tmp_path / "marker"
    path = with_code(checkpoint, module, marker, tmp_path / "option.pt")
    with pytest.raises(CheckpointError, match="refused to evaluate the option"):
        build(path, root)
    assert not marker.exists()
    monkeypatch.setattr(sys.modules[module], "eval", eval)  # fairseq's own behaviour: the code runs
    with contextlib.suppress(Exception):
        build(path, root)
    assert marker.exists()


@pytest.mark.slow
def test_a_checkpoint_cannot_name_a_directory_to_import(root, checkpoint, tmp_path):
    """A checkpoint has the --user-dir of its training; only that of the command line is imported."""
    plugin = tmp_path / "stranger"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')")
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"]["common"]["user_dir"] = str(plugin)
    for part in "model", "task":
        values = state["cfg"][part]
        (values if isinstance(values, dict) else vars(values))["user_dir"] = str(plugin)
    torch.save(state, tmp_path / "checkpoint_last.pt")
    command("validate", root / "bin", "--path", tmp_path / "checkpoint_last.pt", *VALIDATE)
    assert not (tmp_path / "marker").exists()
    assert "Loaded checkpoint" in command("train", *train_args(root, tmp_path, 3)).stdout
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "text, value",
    [
        ("(0.9, 0.98)", (0.9, 0.98)),
        ("1e-4", 1e-4),
        ("-1", -1),
        ("10000,20000", (10000, 20000)),
        ("True", True),
        (" [(512, 3)] * 2 + [(768, 1)]", [(512, 3), (512, 3), (768, 1)]),
        ("[(512, 10, 5)] + [(512, 3, 2)] * 2 + [(512,2,2)]", [(512, 10, 5), (512, 3, 2), (512, 3, 2), (512, 2, 2)]),
    ],
)
def test_options_that_fairseq_evaluates_keep_their_values(text, value):
    assert safe_reading.literal_eval(text) == value


@pytest.mark.parametrize(
    "text", ["exit()", "[].append", "lambda: 0", "x", "[i for i in (1,)]", "f'{1}'", "(", "", "1/0"]
)
def test_other_expressions_are_refused(text):
    with pytest.raises(CheckpointError):
        safe_reading.literal_eval(text)


FAIRSEQ = Path(fairseq.__file__).parent
SOURCES = [path for path in sorted(FAIRSEQ.rglob("*.py")) if path.relative_to(FAIRSEQ).parts[0] != "examples"]


@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")
def test_every_eval_of_fairseq_is_replaced():
    """All modules of fairseq that use eval have ours, and none compiles code in another way."""
    evaluating = set()
    for path in SOURCES:
        text = path.read_text("utf-8")
        if re.search("eval|exec|compile|__import__", text):
            names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
            assert not names & {"exec", "compile", "__import__"}, path
            if "eval" in names:
                evaluating.add(".".join(path.relative_to(FAIRSEQ.parent).with_suffix("").parts))
    assert evaluating >= {*CODE_IN_OPTIONS, "fairseq.optim.adam", "fairseq.data.codedataset"}
    for name in evaluating:
        assert importlib.import_module(name).eval is safe_reading.literal_eval, name


# Modules of fairseq that start programs, import by name or read files with code → why no checkpoint reaches that.
REVIEWED = {
    "checkpoint_utils.py": "torch.load, safe by default",
    "criterions/__init__.py": "imports fairseq's own modules",
    "data/audio/__init__.py": "imports fairseq's own modules",
    "data/audio/data_cfg.py": "FullLoader makes no objects but Python's own (PyYAML 6)",
    "data/codedataset.py": "torch.load, safe by default",
    "data/encoders/__init__.py": "imports fairseq's own modules",
    "data/fasta_dataset.py": "a shell line with the path of a data file that exists: a checkpoint creates none",
    "data/plasma_utils.py": "starts plasma_store, without a shell",
    "distributed/utils.py": "objects of the other processes of the same run; a list of Slurm's hosts",
    "hub_utils.py": "imports the user_dir that its caller gives",
    "model_parallel/criterions/__init__.py": "imports fairseq's own modules",
    "model_parallel/models/__init__.py": "imports fairseq's own modules",
    "models/__init__.py": "imports fairseq's own modules",
    "models/ema/__init__.py": "imports fairseq's own modules",
    "models/huggingface/__init__.py": "imports fairseq's own modules",
    "models/speech_to_text/hub_interface.py": "a repository named in a file of the data folder, when asked to speak",
    "models/speech_to_text/xm_transformer.py": "torch.load, safe by default",
    "models/text_to_speech/vocoder.py": "torch.load, safe by default",
    "modules/quantization/pq/em.py": "torch.load, safe by default",
    "optim/__init__.py": "imports fairseq's own modules",
    "optim/fused_adam.py": "imports apex",
    "optim/lr_scheduler/__init__.py": "imports fairseq's own modules",
    "options.py": "imports the --user-dir of the command line",
    "scoring/__init__.py": "imports fairseq's own modules",
    "scoring/bleu.py": "calls the library that fairseq was built with",
    "tasks/__init__.py": "imports fairseq's own modules",
    "tasks/audio_pretraining.py": "post_save_script: run after saving, for the task of the command line",
    "utils.py": "imports the --user-dir",
}


def test_every_other_way_to_run_code_was_reviewed():
    """A version of fairseq that starts programs, imports or unpickles elsewhere must be reviewed again."""
    ways = r"subprocess\.\w+\(|os\.(system|popen|exec|spawn)|runpy|ctypes|import_module\(|import_user_module\(|"
    ways += r"(pickle|torch|yaml|joblib|dill|hub|jit)\.(unsafe_)?load|allow_pickle=True|instantiate\(|weights_only"
    found = {path.relative_to(FAIRSEQ).as_posix() for path in SOURCES if re.search(ways, path.read_text("utf-8"))}
    assert found == set(REVIEWED)
    assert "weights_only" not in "".join(path.read_text("utf-8") for path in SOURCES)


def load(path: Path) -> dict:
    return checkpoint_utils.load_checkpoint_to_cpu(str(path))


def refusal(path: Path) -> str:
    """Return the message with which a file is refused, one line."""
    with pytest.raises(CheckpointError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    assert isinstance(caught.value, UsageError)
    return message


def test_torchs_variable_for_unsafe_loading_is_removed(evil, root, monkeypatch):
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
        (OmegaConf.create({"a": 1}), "omegaconf"),  # allowed in the broadcast only
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
    for foreign in (
        [1, 2],
        torch.zeros(3),
        OrderedDict(weight=torch.zeros(2)),
    ):  # valid for torch only
        torch.save(foreign, path)
        assert "no checkpoint of fairseq's" in refusal(path)


def test_resuming_from_a_damaged_checkpoint_keeps_the_file(root, checkpoint, tmp_path):
    damaged = tmp_path / "checkpoint_last.pt"
    damaged.write_bytes(checkpoint.read_bytes()[:-100])
    before = damaged.read_bytes()
    done = command("train", *train_args(root, tmp_path, 4), check=False)
    assert done.returncode == 1 and done.stderr.startswith(f"fairseq_localattn: cannot load {damaged}: ")
    assert done.stderr.count("\n") == 1
    assert damaged.read_bytes() == before and list(tmp_path.glob("*.pt")) == [damaged]


def bleu_counts(state: dict) -> list[np.ndarray]:
    """Return the n-gram counts in the meters of a checkpoint."""
    meters = [state for _, _, _, state in state["extra_state"]["metrics"]["valid"]]
    return [meter["sum"] for meter in meters if isinstance(meter.get("sum"), np.ndarray)]


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_bleu_counts_of_numpy_1_and_2_are_read(module, checkpoint, tmp_path):
    """numpy 1 and 2 write arrays under different module names; the counts are the same."""
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


@pytest.mark.slow
def test_two_processes_resume_a_training_of_one_process(root, checkpoint, tmp_path):
    """The broadcast of a resume has omegaconf's classes, and BLEU counts summed over processes are floats."""
    shutil.copy(checkpoint, tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = f"--distributed-world-size 2 --distributed-init-method tcp://127.0.0.1:{port} --distributed-no-spawn"
    flags += " --distributed-backend gloo --ddp-backend legacy_ddp"
    flags += f" --num-workers 0 --user-dir {PACKAGE} --distributed-rank"
    args = [*train_args(root, tmp_path, 4), *flags.split()]
    with started("fairseq-train", *args, 0, cwd=root) as first, started("fairseq-train", *args, 1, cwd=root) as second:
        done = [worker.wait() for worker in (first, second)]
    assert [worker.returncode for worker in done] == [0, 0], done[0].stderr + done[1].stderr
    log = done[0].stdout + done[0].stderr
    assert "Loaded checkpoint" in log and "@ 2 updates" in log
    state = load(tmp_path / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 4
    assert {counts.dtype for counts in bleu_counts(state)} == {np.dtype("float64")}
    # The classes of the broadcast are allowed during the broadcast only.
    assert not set(map(id, safe_reading.BROADCAST_CLASSES)) & set(map(id, torch.serialization.get_safe_globals()))
