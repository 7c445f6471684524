"""Repairs of fairseq: today's torch and numpy, batches without losses, and errors in one line.

:func:`apply` runs when the plugin is imported: before fairseq parses its arguments or reads a checkpoint, and in every
process that fairseq spawns.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils, models, options, tasks
from fairseq.data import data_utils
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from fairseq.models.ema.ema import EMA
from fairseq.modules import DynamicConv_scripatable, checkpoint_activations
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.search import DiverseBeamSearch
from fairseq.tasks import translation, translation_from_pretrained_bart, translation_lev
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer

from ..errors import UsageError, did_you_mean
from . import arguments, data, interactive, loading, mistakes, noise, peers, pruning, safe_reading, saving
from .around import around
from .training import command

_applied = False


def apply() -> None:
    """Apply all repairs once; further calls do nothing. Raises ImportError if torch is older than 2.6."""
    global _applied
    if _applied:
        return
    _applied = True
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        raise ImportError(
            f"fairseq_localattn needs torch >= 2.6, not {torch.__version__}: earlier ones run code from checkpoints"
        )
    noise.hide()
    safe_reading.protect()
    saving.apply()
    data.apply()
    average_weights_rightly()  # within what explains checkpoints
    loading.apply()
    interactive.apply()
    command.apply()  # within what explains lost processes
    peers.apply()
    pruning.apply()
    arguments.apply()
    mistakes.apply()
    provide_numpy_long()
    undo_tpu_of_bf16()
    split_at_all_white_space()
    keep_last_batch()
    keep_batches_on_resume()
    name_missing_files()
    name_mistakes_in_models()
    repair_dynamic_convolutions()
    keep_autocast_in_checkpointing()
    count_diverse_beams_by_position()
    divide_once_by_the_scale()
    count_the_first_part_once()


def provide_numpy_long() -> None:
    """Provide ``np.compat.long``, which numpy 2 dropped and fairseq's blocks of sentences (TokenBlockDataset) use."""
    if not hasattr(np, "compat"):
        np.compat = types.SimpleNamespace(long=int)  # type: ignore[attr-defined]


def split_at_all_white_space() -> None:
    """Let ``--bpe subword_nmt`` split words at all white space, as fairseq's dictionary does with its output.

    subword-nmt splits at spaces alone: a word with a no-break space would become "47@@", "@@" and "346".
    """

    @around(SubwordNMTBPE, "encode")
    def of_words(encode: Callable[..., Any], self: Any, x: str) -> Any:
        return encode(self, " ".join(x.split()))


def undo_tpu_of_bf16() -> None:
    """Let ``--bf16`` train on CPU and GPU: keep ``tpu`` only where the command line has ``--tpu``.

    fairseq's parse_args_and_arch sets it with every ``--bf16``, and training then requires torch_xla.
    """

    @around(options, "parse_args_and_arch")
    def parse_args_and_arch(
        parse: Callable[..., Any], parser: Any, input_args: list[str] | None = None, *rest: Any, **kwargs: Any
    ) -> Any:
        result = parse(parser, input_args, *rest, **kwargs)
        args = result[0] if isinstance(result, tuple) else result
        if getattr(args, "tpu", False):
            args.tpu = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
        return result


def keep_last_batch() -> None:
    """Keep the last batch, which this fairseq drops unless its size is a multiple of 8 (fairseq issue #5036).

    The number is ``--required-batch-size-multiple``. Of 500 test sentences, 4 would be neither translated nor scored,
    and a data set of fewer than 8 sentences would be empty.
    """
    signature = inspect.signature(data_utils.batch_by_size)

    @around(data_utils, "batch_by_size")
    def batch_by_size(cut: Callable[..., Any], indices: Any, *args: Any, **kwargs: Any) -> Any:
        if signature.bind(indices, *args, **kwargs).arguments.get("fixed_shapes") is not None:
            return cut(indices, *args, **kwargs)  # drops nothing, and its batches may not be consecutive
        batches = list(cut(indices, *args, **kwargs)) if len(indices) else []
        kept = sum(map(len, batches))  # batches are consecutive slices of the indices, so only the end can be missing
        return batches if kept == len(indices) else [*batches, indices[kept:]]


def keep_batches_on_resume() -> None:
    """Give a training that is resumed in a later epoch the same batches as the training that it continues.

    fairseq makes the batches once, in the first epoch of a process, and breaks ties at random from ``seed + epoch``. A
    resumed training would make different ones, see some sentences twice in its first epoch and miss others.
    """
    signature = inspect.signature(FairseqTask.get_batch_iterator)

    @around(FairseqTask, "get_batch_iterator")
    def get_batch_iterator(make: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
        call = signature.bind(self, *args, **kwargs)
        call.apply_defaults()
        arguments = call.arguments
        seed = arguments["seed"]
        rebuilt = arguments["update_epoch_batch_itr"] or getattr(self.cfg, "rebuild_batches", False)
        rebuilt = rebuilt or arguments["disable_iterator_cache"]  # of data in several folders
        if rebuilt or not self.can_reuse_epoch_itr(arguments["dataset"]):
            return make(*call.args, **call.kwargs)  # made again in each epoch, so independent of earlier ones
        arguments["seed"] = seed + 1 - arguments["epoch"]  # makes seed + epoch that of the first epoch
        iterator = make(*call.args, **call.kwargs)
        iterator.seed = seed  # orders the batches of every epoch
        return iterator


def repair_dynamic_convolutions() -> None:
    """Let DynamicConv compute a short text as it decodes it, and train no parameter that it does not use.

    Where a decoder's kernel is wider than the text, fairseq cuts the kernel before its softmax in a full pass, but
    after it in incremental decoding. Scores would depend on the longest sentence of the batch. Zeros in front of the
    text make it as wide as the kernel. The unused bias is uninitialised memory, and DDP waits for its gradient.
    """

    @around(DynamicConv_scripatable, "_forward_unfolded")
    def forward_unfolded(
        compute: Callable[..., Any], self: Any, x: torch.Tensor, incremental_state: Any, query: torch.Tensor
    ) -> Any:
        missing = self.kernel_size - x.size(0)
        if incremental_state is not None or missing <= 0 or self.padding_l != self.kernel_size - 1:
            return compute(self, x, incremental_state, query)
        x, query = (F.pad(y, (0, 0, 0, 0, missing, 0)) for y in (x, query))
        return compute(self, x, None, query)[missing:]

    @around(DynamicConv_scripatable, "reset_parameters")
    def reset_parameters(reset: Callable[..., Any], self: Any) -> None:
        reset(self)
        if not self.has_conv_bias:
            torch.nn.init.zeros_(self.conv_bias)
            self.conv_bias.requires_grad_(False)


def count_the_first_part_once() -> None:
    """Let ``train`` count once beside ``train1``: fairseq's default of ``--upsample-primary`` is -1 (issue #3644)."""
    signature = inspect.signature(translation.load_langpair_dataset)

    def load_once(load: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        times = arguments["upsample_primary"]
        return load(**{**arguments, "upsample_primary": 1 if times < 0 else times})

    for module in (translation, translation_lev, translation_from_pretrained_bart):
        around(module, "load_langpair_dataset")(load_once)


DATA_HINT = "Give the folder that fairseq-preprocess wrote (its --destdir), and a split that is in it"
CHECKPOINT_HINT = "Give --path a checkpoint that fairseq-train wrote (in its --save-dir)"


def _with_hint(function: Callable[..., Any], hint: str, *more: type[Exception]) -> Callable[..., Any]:
    """Wrap ``function`` so that it raises UsageError, in one line with ``hint``, where it cannot open a file.

    ``more`` are other errors of which it does so.
    """

    kinds: tuple[type[Exception], ...] = (OSError, *more)

    @functools.wraps(function)
    def with_hint(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except kinds as error:
            file = getattr(error, "filename", None)
            what = f"{error.strerror}: {file}" if isinstance(error, OSError) and file else " ".join(str(error).split())
            raise UsageError(f"fairseq_localattn: {what}. {hint}") from error

    return with_hint


def name_missing_files() -> None:
    """Replace tracebacks by one line where a data folder, a dictionary, a split or a checkpoint is missing."""

    @around(data_utils, "infer_language_pair")
    def infer_language_pair(infer: Callable[..., Any], path: str) -> Any:
        pair = infer(path)
        if None in pair:
            raise FileNotFoundError(f"No data of a language pair in {path}")
        return pair

    tasks.setup_task = _with_hint(tasks.setup_task, DATA_HINT)
    for task in (TranslationTask, LanguageModelingTask, SentencePredictionTask):
        # AssertionError: the source and the target, or the labels, have different numbers of sentences.
        task.load_dataset = _with_hint(task.load_dataset, DATA_HINT, AssertionError)
    checkpoint_utils.load_model_ensemble_and_task = _with_hint(
        checkpoint_utils.load_model_ensemble_and_task, CHECKPOINT_HINT
    )


def name_mistakes_in_models() -> None:
    """Replace by one line the KeyError of a misspelt architecture, and the error of a model that is too large."""

    @around(models, "build_model")
    def build_model(build: Callable[..., Any], cfg: Any, *args: Any, **kwargs: Any) -> Any:
        known = {*models.ARCH_MODEL_REGISTRY, *models.MODEL_DATACLASS_REGISTRY}
        name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
        if name and name not in known:
            raise UsageError(f"fairseq_localattn: there is no architecture {name}{did_you_mean(name, known)}")
        try:
            return build(cfg, *args, **kwargs)
        except (MemoryError, RuntimeError) as error:
            detail = " ".join(str(error).split())[:200]
            if isinstance(error, MemoryError) or "allocate memory" in detail or "out of memory" in detail:
                raise UsageError(f"fairseq_localattn: no memory for a model of these sizes: {detail}") from error
            raise


def keep_autocast_in_checkpointing() -> None:
    """Let ``--checkpoint-activations`` compute a layer again under the autocast of its forward pass.

    fairseq does so without autocast: after a forward pass in half precision (``--amp``, or ``--localattn-cpu-matmul
    bf16``) the gradients would be those of a layer in fp32.
    """

    @around(checkpoint_activations, "_checkpointed_forward")
    def _checkpointed_forward(
        checkpointed: Callable[..., Any], layer: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        on = {
            device: torch.get_autocast_dtype(device) for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)
        }

        def forward(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as entered:
                for device, dtype in on.items():
                    entered.enter_context(torch.autocast(device, dtype))
                return layer(*args, **kwargs)

        return checkpointed(forward, *args, **kwargs)


def count_diverse_beams_by_position() -> None:
    """Let ``--diverse-beam-groups`` count what the groups share by a sentence's position in its batch.

    fairseq-generate gives the numbers of the sentences in the data: those of other sentences, or beyond the batch.
    """

    @around(DiverseBeamSearch, "step")
    def step(search: Callable[..., Any], self: Any, step: int, *args: Any, **kwargs: Any) -> Any:
        call = inspect.signature(search).bind(self, step, *args, **kwargs)
        numbers = call.arguments.get("original_batch_idxs")
        if numbers is not None:
            if step == 0:
                self.numbers = numbers
            call.arguments["original_batch_idxs"] = (numbers[:, None] == self.numbers).int().argmax(1)
        return search(*call.args, **call.kwargs)


def divide_once_by_the_scale() -> None:
    """Let ``--amp`` divide gradients by the scale of the loss once.

    fairseq's ``clip_grad_norm`` gives torch's scaler the inner optimizer, and its ``step`` the outer one: the scaler
    takes them for two, and divides the same gradients again.
    """

    def step(self: AMPOptimizer) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    AMPOptimizer.step = step


def average_weights_rightly() -> None:
    """Let ``--store-ema`` average a shared matrix once an update, and keep the final norm of stacks.

    fairseq averages it once for each name: with ``--share-all-embeddings`` a decay of .9 becomes .9³. It also drops a
    stack's buffer ``version``, and then takes the average for an old model, which had no such norm. From a checkpoint
    without an average it takes the weights, which it has deleted by then: a KeyError.
    """

    @around(EMA, "_step_internal")
    def step_once(step: Callable[..., None], self: EMA, new_model: torch.nn.Module, *args: Any) -> None:
        first: dict[torch.nn.Parameter, str] = {}
        names = {name: first.setdefault(x, name) for name, x in new_model.named_parameters(remove_duplicate=False)}
        others = {name: of_first for name, of_first in names.items() if name != of_first}
        self.fp32_params |= {name: self.fp32_params[of] for name, of in others.items() if name in self.fp32_params}
        state = {name: value for name, value in new_model.state_dict().items() if name not in others}
        step(self, types.SimpleNamespace(state_dict=lambda: state), *args)

    @around(EMA, "restore")
    def restore(former: Callable[..., None], self: EMA, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        versions = {name: x for name, x in self.model.state_dict().items() if name.endswith(".version")}
        former(self, {**state_dict, **versions}, *args, **kwargs)

    @around(Trainer, "load_checkpoint")
    def load_checkpoint(load: Callable[..., Any], self: Trainer, *args: Any, **kwargs: Any) -> Any:
        cfg = self.cfg.ema
        asked, cfg.store_ema = cfg.store_ema, False
        try:
            extra = load(self, *args, **kwargs)
        finally:
            cfg.store_ema = asked
        if asked and extra is not None:
            self.ema.restore(extra.get("ema") or self._model.state_dict())
            if cfg.ema_fp32:
                self.ema.build_fp32_params(extra.get("ema_fp32_params"))
        return extra
