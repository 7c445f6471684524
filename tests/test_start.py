"""What the start of a process imports: fairseq-train with the plugin, the package's own command, plain PyTorch."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

from support.cli import USER_DIR, run


@pytest.mark.slow
def test_user_dir_imports_nothing_beyond_fairseqs_own_start() -> None:
    """No matplotlib, sacremoses, sentencepiece, stanza, torch._dynamo … and none of the package's own commands."""
    program = f"""
import argparse, sys
import fairseq_cli.train
from fairseq import models, utils
before = set(sys.modules)
utils.import_user_module(argparse.Namespace(user_dir={str(USER_DIR)!r}))
assert "transformer_mma" in models.ARCH_MODEL_REGISTRY
print("new:", *sorted(set(sys.modules) - before))
"""
    imported = run(sys.executable, "-c", program).stdout.rpartition("new:")[2].split()
    others = [name for name in imported if name.split(".")[0] not in sys.stdlib_module_names]
    assert "fairseq_localattn.variants.mma" in others
    assert [name for name in others if not name.startswith("fairseq_localattn")] == []
    assert [name for name in others if name.startswith("fairseq_localattn.analysis")] == []


def test_the_path_is_printed_without_torch() -> None:
    """`--user-dir "$(python -m fairseq_localattn --path)"` begins every training outside of the repository."""
    done = run(sys.executable, "-X", "importtime", "-m", "fairseq_localattn", "--path")
    assert done.stdout == f"{USER_DIR}\n"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "fairseq_localattn" in imported and not {"torch", "numpy", "fairseq"} & imported
    version = run(sys.executable, "-m", "fairseq_localattn", "--version").stdout
    assert version == metadata.version("fairseq_localattn") + "\n"


@pytest.mark.parametrize("absent", [[], ["fairseq", "hydra", "omegaconf"]], ids=["", "absent"])
def test_plain_pytorch_waits_for_the_attention_alone(absent: list[str]) -> None:
    """The package imports torch when its attention is asked for, and nothing else; fairseq may be absent."""
    program = f"""
import sys
sys.modules.update(dict.fromkeys({absent}))
import fairseq_localattn
assert "torch" not in sys.modules
import numpy, torch
before = set(sys.modules)
from fairseq_localattn import attention
assert attention("local(window=2) + global", 8, 2)(*[torch.zeros(3, 2, 8)] * 3)[0].shape == (3, 2, 8)
print(*sorted(set(sys.modules) - before))
try:
    fairseq_localattn.atention
except AttributeError as error:
    assert "has no attribute 'atention'" in str(error)
if {absent}:
    fairseq_localattn.register()
"""
    imported = run(sys.executable, "-c", program).stdout.split()
    assert "fairseq_localattn.grammar.build" in imported
    assert all(name.startswith("fairseq_localattn.") for name in imported), imported


@pytest.mark.slow
def test_models_are_registered_whatever_is_imported_first() -> None:
    """Nor does fairseq's import change the root logger, or give advice; processes are forked, for the seconds of it."""
    program = """
import logging, os, sys
import hydra, numpy, omegaconf, torch
for first in sys.argv[1:]:
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0, first
        continue
    exec(first)
    from fairseq.models import ARCH_MODEL_REGISTRY
    assert "transformer_mma" in ARCH_MODEL_REGISTRY
    if not first.startswith("import fairseq,"):
        assert logging.getLogger().level == logging.WARNING and not logging.getLogger().handlers
    os._exit(0)
"""
    firsts = [f"import fairseq_localattn.{part}" for part in ("criterions.label_smoothed", "hub", "phrases.dataset")]
    assert "tensorboardX" not in run(sys.executable, "-c", program, *firsts, "import fairseq_localattn").stderr
    run(sys.executable, "-c", program, "import fairseq, fairseq_localattn")
