"""Part ``launches``: operations that start a kernel on a GPU, and waits of the host for it, counted on the device meta.

Tensors of the device ``meta`` have shapes and no numbers. A step on it takes the branches of a GPU, in bf16, on any
machine: what the host reads from the device is answered by 1. Views and allocations start no kernel. An operation that
this package or another registers with torch counts as one.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairseq_localattn.kernels.passes import forward_pass

from .batches import Batches, Sample
from .modules import ATTENTIONS, AttentionCall, make_inputs
from .report import Row
from .settings import Settings
from .steps import TrainingStep
from .systems import FUSED, SYSTEMS, System, make_task
from .timing import PartProgress

META = torch.device("meta")
WORDS, LENGTH, SENTENCES = 1000, 29, 136  # of the batch that is counted; no count depends on them
# Fitted to steps of base size in bf16 on an H200: forward and backward pass (R² .77), and fairseq's Adam.
WAITING_MS, OPERATION_MS, UPDATE_MS = 22.0, 0.029, 0.0099
_NO_KERNEL = frozenset(
    "detach alias lift lift_fresh _unsafe_view _reshape_alias set_ resize_ record_stream empty empty_like "
    "empty_strided empty_permuted new_empty new_empty_strided".split()
)
_TORCH, _HERE = str(Path(torch.__file__).parent), __file__
_ROOTS = (Path(_TORCH).parent, Path(_HERE).parent.parent)  # of installed modules, and of this repository


class Launches(TorchDispatchMode):
    """Counts what is computed on :data:`META` inside of the context: ``operations`` by name, ``syncs`` by place."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()
        self.syncs: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """The number of operations."""
        return self.operations.total()

    def sync(self) -> None:
        """Count a wait of the host, by the line outside of torch that causes it."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith((_TORCH, _HERE)):
            frame = frame.f_back
        file = Path(frame.f_code.co_filename)
        root = next((each for each in _ROOTS if file.is_relative_to(each)), file.parent)
        self.syncs[f"{file.relative_to(root)}:{frame.f_lineno}"] += 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        devices = [each.device for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        target = kwargs.get("device")
        if META not in devices and (target is None or torch.device(target) != META):
            return func(*args, **kwargs)
        if name == "_local_scalar_dense":
            self.sync()
            return True if args[0].dtype == torch.bool else 1.0 if args[0].is_floating_point() else 1
        if name == "equal":
            self.sync()
            return True
        if name == "_to_copy" and target is not None and torch.device(target) != META:
            self.sync()
            return torch.ones(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype, device=target)
        if name in _NO_KERNEL or _is_view(func):
            return func(*args, **kwargs)
        crosses = any(
            each.device != META and (each.dim() or name in ("_to_copy", "copy_"))
            for each in tree_leaves((args, kwargs))
            if isinstance(each, Tensor)
        )
        if crosses and not kwargs.get("non_blocking"):
            self.sync()
        self.operations[name] += 1
        return func(*args, **kwargs)


def _is_view(func: Any) -> bool:
    """Return whether all that an operation returns shares the memory of its arguments, unchanged."""
    returned = [each.alias_info for each in func._schema.returns]
    return bool(returned) and all(alias is not None and not alias.is_write for alias in returned)


@contextmanager
def counted() -> Iterator[Launches]:
    """Return the counts of what is computed inside of the context, where torch does what it does on a GPU."""
    found = Launches()
    makers = ("tensor", "as_tensor")
    with ExitStack() as entered:
        for name in makers:
            entered.enter_context(patch.object(torch, name, _made_on_host(getattr(torch, name), found)))
        for owner, name, stand_in in (
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "current_device", lambda: META),
            (torch, "autocast", _on_meta(torch.autocast, lambda *_, **__: nullcontext())),
            (torch, "is_autocast_enabled", _on_meta(torch.is_autocast_enabled, lambda *_: False)),
            (F, "dropout", _on_meta(F.dropout, _dropout)),
            (F, "scaled_dot_product_attention", _on_meta(F.scaled_dot_product_attention, _attention)),
        ):
            entered.enter_context(patch.object(owner, name, stand_in))
        entered.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="amp_C fused kernels unavailable")
        warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")
        yield entered.enter_context(found)


def _on_meta(real: Callable[..., Any], stand_in: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is ``stand_in`` where its first argument is on, or names, the device meta."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        device = first.device.type if isinstance(first, Tensor) else first
        return (stand_in if device == META.type else real)(*args, **kwargs)

    return chosen


def _made_on_host(real: Callable[..., Tensor], found: Launches) -> Callable[..., Tensor]:
    """Return a function that makes a tensor of numbers of the host, which is copied to the device."""

    def made(data: Any, *args: Any, **kwargs: Any) -> Tensor:
        tensor = real(data, *args, **kwargs)
        if tensor.device == META and not isinstance(data, Tensor):
            found.operations["_to_copy"] += 1
            found.sync()
        return tensor

    return made


def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Compute dropout by the one kernel that torch has for it on GPUs."""
    return torch.native_dropout(x, p, True)[0] if training and p else x


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute attention by one kernel for each direction, with what torch does to a mask before it."""
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, torch.full((), float("-inf"), dtype=q.dtype, device=q.device))
        length = k.size(-2)
        if any(stride % 8 for stride in attn_mask.stride()[:-1]):  # rows of a mask must be aligned
            attn_mask = F.pad(attn_mask, (0, 8 - attn_mask.size(-1) % 8))[..., :length]
        attn_mask = attn_mask.expand(*q.shape[:-1], length)
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention
    return kernel(q, k, v, attn_mask, True, dropout_p, is_causal, scale=scale)[0]


# --- what is counted


def settings_of_count(settings: Settings | None = None) -> Settings:
    """Return the settings of a count: in bf16, with this package's optimizer, and else as given."""
    return replace(settings or Settings(META), device=META, precision="bf16", words=WORDS, optimizer=FUSED)


def batches_of_count(settings: Settings) -> list[Sample]:
    """Return two batches of one shape, on the CPU."""
    task = make_task(settings.words)
    return Batches(task.source_dictionary, task.tag_dictionary).equal(LENGTH, SENTENCES, 2)


def count_step(system: System, settings: Settings) -> dict[str, Launches]:
    """Count the parts of a training step that is not the first: forward, backward, and the optimizer's."""
    with META:
        step = TrainingStep(system, settings, make_task(settings.words))
    step.optimizer.backward(sum(each.sum() for each in step.built.model.parameters()))
    step.optimizer.step()
    step.optimizer.zero_grad()
    first, second = batches_of_count(settings)
    step.prepare(first)
    with counted():
        step.forward()  # which makes the table of positions
    step.prepare(second)
    found = {}
    with counted() as found["forward"]:
        loss, words = step.forward()
    with counted() as found["backward"]:
        step.optimizer.backward(loss)
    with counted() as found["optimizer"]:
        step.update(words)
    return found


def count_attention(name: str, settings: Settings) -> dict[str, Launches]:
    """Count forward and backward pass of one attention of modules.py, as in any layer but the first."""
    call = AttentionCall(name, settings)
    call.prepare(make_inputs(LENGTH, SENTENCES, settings, 1))
    found = {}
    with forward_pass():
        with counted():
            call.run()
        with counted() as found["forward"]:
            out = call.forward()
        with counted() as found["backward"]:
            call.backward(out)
    return found


def run_launches(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part: of steps, then of attentions, fairseq's own first in both."""
    settings = settings_of_count(settings)
    systems = [name for name, system in SYSTEMS.items() if not system.fp32]
    names = [systems[0], *settings.chosen(tuple(systems[1:]))]
    attentions = [*ATTENTIONS][:1] + settings.chosen(tuple(ATTENTIONS)[1:])
    progress.expect(len(names) + len(attentions))
    rows = []
    for name in names:
        progress.say(f"{name}: a step")
        rows.append({"system": name, "architecture": SYSTEMS[name].architecture_of(settings)})
        rows[-1] |= _columns(count_step(SYSTEMS[name], settings), rows[0])
        progress.done += 1
    for name in attentions:
        progress.say(f"{name}: one attention")
        rows.append({"system": name, "architecture": "one attention"})
        rows[-1] |= _columns(count_attention(name, settings), rows[len(names)])
        progress.done += 1
    return rows


def _columns(parts: Mapping[str, Launches], first: Row) -> Row:
    """Return the columns of a row from the counts of its parts; ``first`` is the row that it is compared with."""
    row: Row = {name: found.total for name, found in parts.items()}
    row["operations"] = sum(row.values())
    if "optimizer" in row:
        row["predicted_ms"] = WAITING_MS + OPERATION_MS * (row["forward"] + row["backward"])
        row["predicted_ms"] += UPDATE_MS * row["optimizer"]
        row["predicted_ratio"] = first.get("predicted_ms", row["predicted_ms"]) / row["predicted_ms"]
    syncs: Counter[str] = sum((found.syncs for found in parts.values()), Counter())
    row["share"] = row["operations"] / first.get("operations", row["operations"])
    return row | {"syncs": syncs.total(), "note": ", ".join(f"{place} ×{n}" for place, n in syncs.most_common())}
