"""Errors of fairseq about the options of a command: one line each, where fairseq ends in a traceback."""

from __future__ import annotations

import ast
import json
import logging
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer
from hydra._internal import utils as hydra_utils
from omegaconf import OmegaConf
from torch.multiprocessing.spawn import ProcessRaisedException

from ..errors import UsageError, did_you_mean
from .around import around
from .loading import explained

logger = logging.getLogger(__name__)
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]+")
RAISED = (AssertionError, ValueError, RuntimeError, NotImplementedError, Exception)  # what fairseq raises of options
# What fairseq says without a flag, and what to do.
ADVICE = {
    r"world size is (\d+) but have (\d+) available devices": "--distributed-world-size is \\1, and there are \\2 GPUs",
    r"The dataset is empty.*": "no sentence is left: the split is empty, or all of it is longer than --max-tokens, "
    "--max-source-positions and --max-target-positions allow",
    r"(Minimum loss scale reached.*)": "\\1",
    r"(Cannot use fp16 and AMP together)": "\\1: give --fp16 or --amp",
}
LAST = re.compile(r"^(?P<kind>[\w.]+): (?P<message>.+)", re.MULTILINE)  # of a traceback


def line_of(error: BaseException) -> str | None:
    """Return the line that tells a user of a mistake in the options; None for any other error.

    fairseq's errors of this kind name a flag, or are in :data:`ADVICE`. A file that cannot be opened is one as well.
    """
    if isinstance(error, ProcessRaisedException):  # its text is the traceback of a process for one of several GPUs
        kind, message = [("", ""), *LAST.findall(str(error))][-1]
        if kind.startswith("fairseq_localattn."):
            return message
        error = Exception(message) if kind in {each.__name__ for each in RAISED} else error
    text = " ".join(str(error).split())
    if isinstance(error, OSError):
        named = error.filename and error.strerror
        return f"{error.strerror}: {error.filename} (LOGLEVEL=DEBUG shows where)" if named else None
    for said, advice in ADVICE.items():
        if found := re.search(said, text):
            return found.expand(advice)
    return text if type(error) in RAISED and FLAG.search(text) else None


def _told(run: Callable[[], Any], cfg: Any, module: dict[str, Any]) -> Any:
    """Return what ``run`` returns. Raises UsageError for mistakes in the options of a command, ``cfg``.

    ``module`` holds the names of the command's module.
    """
    check_command(cfg, module)
    try:
        return run()
    except UsageError:
        raise
    except Exception as error:
        line = _of_an_option(error, cfg) or line_of(error)
        if line is None:
            raise
        logger.debug("the error in full", exc_info=True)
        raise UsageError(line) from error


def _explain_commands() -> None:
    """Wrap ``call_main``, by which fairseq runs each command but fairseq-generate, and that one's main function."""

    @around(distributed_utils, "call_main")
    def call_main(call: Callable[..., Any], cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        return _told(lambda: call(cfg, main, **kwargs), cfg, getattr(main, "__globals__", {}))

    @around(options, "parse_args_and_arch")  # the last that fairseq-generate calls before its own
    def parse_args_and_arch(parse: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        module: Any = sys.modules.get("fairseq_cli.generate")
        if hasattr(module, "main") and not hasattr(module.main, "__wrapped__"):
            around(module, "main")(_explained)
        return parse(*args, **kwargs)


def _explained(main: Callable[..., Any], args: Any) -> Any:
    """Wrap the main function of fairseq-generate."""
    cfg = convert_namespace_to_omegaconf(args) if isinstance(args, Namespace) else args
    return _told(lambda: main(cfg), cfg, main.__globals__)


def check_command(cfg: Any, module: dict[str, Any]) -> None:
    """Raise UsageError for options of a command that fairseq does not check; ``module`` holds the command's names."""
    try:
        ast.literal_eval(cfg.common_eval.model_overrides)
    except (SyntaxError, ValueError) as error:
        raise UsageError(
            f"--model-overrides {cfg.common_eval.model_overrides}: give a dictionary of Python, as in "
            "\"{'dropout': 0.1}\""
        ) from error
    if "Trainer" not in module and cfg.common_eval.path is None:
        raise UsageError("--path is missing: give a checkpoint that fairseq-train wrote")
    if cfg.generation.beam < 1:
        raise UsageError(f"--beam {cfg.generation.beam}: give 1 or more")
    if cfg.generation.replace_unk is not None:
        raise UsageError(
            "--replace-unk: fairseq cannot replace unknown words; train on subwords, or replace them in the output "
            "by the positions of --print-alignment hard"
        )
    if cfg.generation.constraints and "buffered_read" not in module:
        raise UsageError("--constraints: fairseq-interactive alone reads them, after a tab")


def _of_an_option(error: Exception, cfg: Any) -> str | None:
    """Return the line of an error that comes from the value of one option of ``cfg``, found by that value."""
    metric = cfg.checkpoint.best_checkpoint_metric
    if isinstance(error, KeyError) and error.args == (metric,):
        return f"--best-checkpoint-metric {metric}: the validation does not measure it"
    if isinstance(error, json.JSONDecodeError):
        for name, value in _values(cfg):
            if value == error.doc:
                return f"--{name.replace('_', '-')} {value}: no JSON, as in '{{\"beam\": 5}}': {error.msg}"
    return None


def _values(cfg: Any) -> Iterator[tuple[str, Any]]:
    """Yield the options of all parts of a configuration."""
    parts: Any = OmegaConf.to_container(cfg)
    for part in parts.values():
        yield from (vars(part) if hasattr(part, "__dict__") else part if isinstance(part, dict) else {}).items()


def check_choice(kind: str, config: Any) -> None:
    """Raise UsageError if the part ``kind`` of a configuration names none of fairseq's classes for it."""
    flag, name = kind.replace("_", "-"), getattr(config, "_name", None)
    known = REGISTRIES[kind]["registry"]
    if name in known:
        return
    if name is None:
        raise UsageError(f"--{flag} is missing: choose from {', '.join(known)}")
    raise UsageError(f"there is no {flag} {name}{did_you_mean(name, known)}")


def _check_task(setup: Callable[..., Any], cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrap fairseq's ``setup_task(cfg)``: raise UsageError for a configuration without data or with an unknown task."""
    name = cfg.get("_name") if OmegaConf.is_config(cfg) else None
    if name is not None and name not in TASK_REGISTRY:
        raise UsageError(f"there is no task {name}{did_you_mean(name, TASK_REGISTRY)}")
    if name is not None and "data" in cfg and (OmegaConf.is_missing(cfg, "data") or cfg.data is None):
        raise UsageError("task.data is missing: give task.data=FOLDER, which fairseq-preprocess wrote")
    return setup(cfg, *args, **kwargs)


def check_training(cfg: Any) -> None:
    """Raise UsageError for options of a training that fairseq finds wrong later, in a traceback."""
    for kind in "optimizer", "lr_scheduler":
        check_choice(kind, cfg[kind])
    common = cfg.common
    cpu = common.cpu or not torch.cuda.is_available()
    if cpu and common.fp16 and not (common.fp16_no_flatten_grads or common.memory_efficient_fp16 or common.tpu):
        raise UsageError(
            f"--fp16 needs a GPU, and {'--cpu is given' if common.cpu else 'torch finds none'}: leave "
            "it out, or give --bf16"
        )
    if common.bf16 and not cpu and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise UsageError(f"--bf16: {torch.cuda.get_device_name()} has no bf16: give --fp16, or leave it out for fp32")
    if common.tpu and find_spec("torch_xla") is None:
        raise UsageError("--tpu needs torch_xla, which is not installed: leave it out")
    if cfg.dataset.num_workers < 0:
        raise UsageError(f"--num-workers {cfg.dataset.num_workers}: give 0 or more")


class _Told(type):
    """Metaclass: ``isinstance`` is true for a UsageError and what :func:`line_of` explains."""

    def __instancecheck__(cls, error: object) -> bool:
        return isinstance(error, UsageError) or isinstance(error, Exception) and line_of(error) is not None


class Told(metaclass=_Told):
    """A class for ``isinstance``: errors whose own text is enough for a user."""


def print_errors_of_hydra_in_one_line() -> None:
    """Let fairseq-hydra-train end with the line of a mistake, as the other commands do, and not with a traceback.

    Hydra catches the error, asks whether it is a CompactHydraException, and prints such a one without a traceback.
    """
    vars(hydra_utils)["CompactHydraException"] = (hydra_utils.CompactHydraException, Told)


def apply() -> None:
    """Install the checks in fairseq; to be called once."""
    _explain_commands()
    print_errors_of_hydra_in_one_line()

    @around(Trainer, "__init__")
    def init(make: Callable[..., None], self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
        check_training(cfg)
        make(self, cfg, *args, **kwargs)

    @around(FairseqTask, "build_criterion")
    def build_criterion(build: Callable[..., Any], self: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        if cfg is not None:
            check_choice("criterion", cfg)
        return build(self, cfg, *args, **kwargs)

    around(tasks, "setup_task")(_check_task)
    Trainer._build_optimizer = explained(Trainer._build_optimizer, "cannot make the optimizer of the options")
