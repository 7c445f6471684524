"""Options of checkpoints are not evaluated, and what fairseq-train writes is read. Refusals: tests/stored."""

import ast
import importlib
import re
import shutil
import zipfile
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

import fairseq_localattn
from fairseq_localattn.compat import safe_reading
from fairseq_localattn.stored.reading import CheckpointError
from support.cli import fairseq as command
from support.cli import make_data, train_flags
from support.forked import two_processes

PACKAGE = Path(fairseq_localattn.__file__).parent

pytestmark = pytest.mark.xdist_group("checkpoint_safety")  # one training serves all tests of this file
BLEU = {
    "eval_bleu": True, "eval_bleu_detok": "space", "eval_bleu_args": '{"beam": 1, "max_len_b": 10}',
    "best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": True,
}  # fmt: skip


def train_args(root: Path, save_dir: Path, updates: int) -> list[object]:
    return train_flags(root / "bin", "transformer_localattn_tiny", save_dir, updates, **BLEU)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A folder with binarised data in bin/ and the checkpoint of two updates with --eval-bleu in ckpt/."""
    root = tmp_path_factory.mktemp("safety")
    make_data(root, train=24)
    command("train", *train_args(root, root / "ckpt", 2))
    return root


@pytest.fixture(scope="module")
def checkpoint(root) -> Path:
    return root / "ckpt" / "checkpoint_last.pt"


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
    assert evaluating >= {"fairseq.utils", "fairseq.criterions.ctc", "fairseq.optim.adam", "fairseq.data.codedataset"}
    for name in evaluating:
        assert importlib.import_module(name).eval is safe_reading.literal_eval, name


# Why no checkpoint reaches what starts programs, imports by name or reads files with code → modules of fairseq.
PACKAGES = "criterions data/audio data/encoders model_parallel/criterions model_parallel/models models models/ema "
PACKAGES += "models/huggingface optim optim/lr_scheduler scoring tasks"
REVIEWED = {
    "imports fairseq's own modules": [f"{name}/__init__.py" for name in PACKAGES.split()],
    "torch.load, safe by default": [
        "checkpoint_utils.py", "data/codedataset.py", "models/speech_to_text/xm_transformer.py",
        "models/text_to_speech/vocoder.py", "modules/quantization/pq/em.py",
    ],
    "FullLoader makes no objects but Python's own (PyYAML 6)": ["data/audio/data_cfg.py"],
    "a shell line with the path of a data file that exists: a checkpoint creates none": ["data/fasta_dataset.py"],
    "starts plasma_store, without a shell": ["data/plasma_utils.py"],
    "objects of the other processes of the same run; a list of Slurm's hosts": ["distributed/utils.py"],
    "imports the user_dir of the caller or the command line": ["hub_utils.py", "options.py", "utils.py"],
    "a repository named in a file of the data, when asked to speak": ["models/speech_to_text/hub_interface.py"],
    "imports apex": ["optim/fused_adam.py"],
    "calls the library that fairseq was built with": ["scoring/bleu.py"],
    "post_save_script: run after saving, for the task of the command line": ["tasks/audio_pretraining.py"],
}  # fmt: skip


def test_every_other_way_to_run_code_was_reviewed():
    """A version of fairseq that starts programs, imports or unpickles elsewhere must be reviewed again."""
    ways = r"subprocess\.\w+\(|os\.(system|popen|exec|spawn)|runpy|ctypes|import_module\(|import_user_module\(|"
    ways += r"(pickle|torch|yaml|joblib|dill|hub|jit)\.(unsafe_)?load|allow_pickle=True|instantiate\(|weights_only"
    found = {path.relative_to(FAIRSEQ).as_posix() for path in SOURCES if re.search(ways, path.read_text("utf-8"))}
    assert found == {name for names in REVIEWED.values() for name in names}
    assert "weights_only" not in "".join(path.read_text("utf-8") for path in SOURCES)


def test_resuming_from_a_damaged_checkpoint_keeps_the_file(root, checkpoint, tmp_path):
    damaged = tmp_path / "checkpoint_last.pt"
    damaged.write_bytes(checkpoint.read_bytes()[:-100])
    before = damaged.read_bytes()
    done = command("train", *train_args(root, tmp_path, 4), check=False)
    assert done.returncode == 1 and done.stderr.startswith(f"fairseq_localattn: cannot load {damaged}: ")
    assert done.stderr.count("\n") == 1
    assert damaged.read_bytes() == before and list(tmp_path.glob("*.pt")) == [damaged]


def bleu_counts(state: dict) -> list[np.ndarray]:
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
    counts = bleu_counts(checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "renamed.pt")))
    expected = bleu_counts(torch.load(checkpoint, weights_only=False))
    assert len(counts) == len(expected) == 2  # matches and totals of 1- to 4-grams
    for ours, theirs in zip(counts, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist()


@pytest.mark.slow
def test_two_processes_resume_a_training_of_one_process(root, checkpoint, tmp_path):
    """The broadcast of a resume has omegaconf's classes, and BLEU counts summed over processes are floats."""
    shutil.copy(checkpoint, tmp_path)
    args = [*train_args(root, tmp_path, 4), "--user-dir", PACKAGE]
    with two_processes(*args, cwd=root) as workers:
        done = [worker.wait() for worker in workers]
    assert [worker.returncode for worker in done] == [0, 0], done[0].stderr + done[1].stderr
    log = done[0].stdout + done[0].stderr
    assert "Loaded checkpoint" in log and "@ 2 updates" in log
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint_last.pt"))
    assert state["optimizer_history"][-1]["num_updates"] == 4
    assert {counts.dtype for counts in bleu_counts(state)} == {np.dtype("float64")}
    # The classes of the broadcast are allowed during the broadcast only.
    assert not set(map(id, safe_reading.BROADCAST_CLASSES)) & set(map(id, torch.serialization.get_safe_globals()))
