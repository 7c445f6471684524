"""Parts ``module`` and ``scaling``: forward and backward pass of one attention module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.grammar.build import attention
from fairseq_localattn.kernels.passes import shared
from fairseq_localattn.mechanisms.alibi import LinearBiasAttention
from fairseq_localattn.mechanisms.block import BlockAttention
from fairseq_localattn.mechanisms.convolutional import ConvolutionalAttention
from fairseq_localattn.mechanisms.gaussian import GaussianAttention
from fairseq_localattn.mechanisms.masked import DynamicMaskAttention, StaticMaskAttention
from fairseq_localattn.mechanisms.mixed import MixedAttention, parse_head_mix
from fairseq_localattn.mechanisms.phrasal import MultiGranularityAttention, parse_granularities
from fairseq_localattn.mechanisms.phrase_memory.partition import Partition, ngram_lengths, partition_of
from fairseq_localattn.mechanisms.relative import BucketedAttention, RelativeAttention
from fairseq_localattn.mechanisms.rotary import RotaryAttention
from fairseq_localattn.mechanisms.sinks import SinkAttention
from fairseq_localattn.mechanisms.windowed import AdditiveWindowAttention, MultiplicativeWindowAttention

from .counters import count_flops, extrapolate_flops, peak_bytes
from .report import MIB, NOT_MEASURED, Row, flop_columns, speed_columns
from .settings import SEED, Settings
from .systems import TEXTS
from .timing import PartProgress, time_rounds

FAIRSEQ = "fairseq"  # the baseline: fairseq's MultiheadAttention
MODULE_LENGTHS = (16, 30, 60, 128, 512, 2048, 8192)
SCALING_LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
MODULE_TOKENS, SCALING_TOKENS = 4096, 1024  # tokens of all sentences together, at least one sentence
PADDING = 2  # padded tokens on the left of every other sentence
LEAST_SECONDS = 0.02  # least time of a measurement; shorter calls are repeated
NGRAMS = "word,2,3,4"


def _mma(channels: int, heads: int) -> nn.Module:
    kinds = parse_head_mix("global,local,forward,backward", heads)
    return MixedAttention(channels, heads, head_kinds=kinds, self_attention=True)


class NgramAttention(MultiGranularityAttention):
    """MG-SA over n-grams, which also computes the partition that a model's encoder computes once per batch."""

    def __init__(self, channels: int, heads: int) -> None:
        granularities, _ = parse_granularities(NGRAMS, heads)
        self.sizes = sorted(set(granularities))
        places = [self.sizes.index(size) for size in granularities]
        super().__init__(channels, heads, granularities=places, interaction="none", self_attention=True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        padding: Tensor = kwargs["key_padding_mask"]
        with self.use_partition(shared(lambda: self._partition_of(padding), padding)):
            return super().forward(*args, **kwargs)

    def _partition_of(self, padding: Tensor) -> Partition:
        partition = partition_of(ngram_lengths(padding, self.sizes), padding, longest=max(self.sizes))
        partition.prepare(self.granularities)
        return partition


# Makers of attentions with C channels and H heads; windows have 11 positions. The first is the baseline.
ATTENTIONS: dict[str, Callable[[int, int], nn.Module]] = {
    FAIRSEQ: lambda c, h: MultiheadAttention(c, h, self_attention=True),
    "san": lambda c, h: LocalAttention(c, h, self_attention=True),
    "mma": _mma,
    "csan_1d": lambda c, h: ConvolutionalAttention(c, h, window=11, head_span=1, self_attention=True),
    "csan_2d": lambda c, h: ConvolutionalAttention(c, h, window=11, head_span=3, self_attention=True),
    "sman": lambda c, h: StaticMaskAttention(c, h, boundary=5, self_attention=True),
    "dman": lambda c, h: DynamicMaskAttention(c, h, self_attention=True),
    "diffwin_aw": lambda c, h: AdditiveWindowAttention(c, h, self_attention=True),
    "diffwin_mw": lambda c, h: MultiplicativeWindowAttention(c, h, self_attention=True),
    "mgsa_ngram": NgramAttention,
    "relpos": lambda c, h: RelativeAttention(c, h, self_attention=True),
    "rope": lambda c, h: RotaryAttention(c, h, self_attention=True),
    "alibi": lambda c, h: LinearBiasAttention(c, h, self_attention=True),
    "t5bias": lambda c, h: BucketedAttention(c, h, self_attention=True),
    "sinks": lambda c, h: SinkAttention(c, h, window=11, self_attention=True),
    "localness": lambda c, h: GaussianAttention(c, h, self_attention=True),
    "neighbor": lambda c, h: GaussianAttention(c, h, center="self", width="head", self_attention=True),
    "blocksan": lambda c, h: BlockAttention(c, h, self_attention=True),
    **{
        name: lambda c, h, text=text: attention(text, c, h, self_attention=True)  # type: ignore[misc]
        for name, text in TEXTS.items()
    },
}
# Attentions that may hold a number for each head, query and key, which fairseq's fused product does not.
QUADRATIC = ("dman", "diffwin_aw", "diffwin_mw", "relpos", "alibi", "t5bias", "localness", "neighbor")


@dataclass(frozen=True)
class Inputs:
    """Inputs of a call: ``x`` and ``gradient`` (of the output) T×B×C, ``padding`` B×T with True = padding."""

    x: Tensor
    gradient: Tensor
    padding: Tensor


def make_inputs(length: int, sentences: int, settings: Settings, seed: int) -> Inputs:
    """Return random inputs; every other sentence, starting with the first, is padded on the left."""
    generator = torch.Generator().manual_seed(seed)
    shape = length, sentences, settings.sizes.channels
    dtype = torch.bfloat16 if settings.half_parameters else torch.float32
    x, gradient = (torch.randn(shape, generator=generator).to(settings.device, dtype) for _ in range(2))
    padding = torch.zeros(sentences, length, dtype=torch.bool)
    padding[::2, :PADDING] = True
    return Inputs(x.requires_grad_(), gradient, padding.to(settings.device))


class AttentionCall:
    """Forward and backward pass of an attention, with gradients of its input and its parameters."""

    def __init__(self, name: str, settings: Settings) -> None:
        torch.manual_seed(SEED)
        self.settings = settings
        made = ATTENTIONS[name](settings.sizes.channels, settings.sizes.heads)
        self.attention = settings.place(made).train()
        self.inputs: Inputs | None = None

    def prepare(self, item: Inputs) -> None:
        self.inputs = item

    def run(self) -> None:
        self.backward(self.forward())

    def forward(self) -> Tensor:
        """Return the output T×B×C."""
        inputs = self.inputs
        assert inputs is not None
        self._clear()  # repeated runs must not sum up their gradients
        x = inputs.x
        with self.settings.autocast():
            out, _ = self.attention(x, x, x, key_padding_mask=inputs.padding, need_weights=False)
        return out

    def backward(self, out: Tensor) -> None:
        """Compute the gradients from those of the output."""
        assert self.inputs is not None
        out.backward(self.inputs.gradient.to(out.dtype))

    def finish(self) -> None:
        self._clear()
        self.inputs = None

    def _clear(self) -> None:
        assert self.inputs is not None
        for tensor in (self.inputs.x, *self.attention.parameters()):
            tensor.grad = None


@dataclass(frozen=True)
class Measured:
    """Measurements of one attention at one length: seconds per round, bytes, and FLOPs if they were counted."""

    seconds: list[float]
    peak: int
    flops: int | None


def names_for(settings: Settings) -> list[str]:
    """Return the names of the baseline and of the selected attentions."""
    return [FAIRSEQ, *settings.chosen(tuple(ATTENTIONS)[1:])]


def too_large(name: str, length: int, settings: Settings) -> bool:
    """Return whether an attention would make a tensor H×T×T in fp32 larger than ``largest_scores``."""
    quadratic = name in QUADRATIC or (name == "mma" and settings.device.type != "cpu")  # where it takes a mask of T×T
    return quadratic and _score_bytes(length, settings) > settings.largest_scores


def _score_bytes(length: int, settings: Settings) -> int:
    """Return the bytes of a tensor H×T×T in fp32."""
    return 4 * settings.sizes.heads * length**2


def measure(
    names: Sequence[str], length: int, sentences: int, settings: Settings, *, progress: PartProgress, count: bool
) -> dict[str, Measured]:
    """Measure attentions at one length; ``count``: count FLOPs as well."""
    items = [make_inputs(length, sentences, settings, seed) for seed in range(settings.warm_up + settings.rounds)]
    calls = {name: AttentionCall(name, settings) for name in names}
    where = f"{length} tokens: "
    units = _units(length, sentences)
    seconds = time_rounds(calls, items, settings, progress, units=units, where=where, least=LEAST_SECONDS)
    found = {}
    for name, call in calls.items():
        progress.say(f"{where}{name}, memory and FLOPs")
        call.prepare(items[-1])
        peak = peak_bytes(call.run, settings.device)
        call.finish()
        found[name] = Measured(seconds[name], peak, _flops(name, length, sentences, settings) if count else None)
    return found


def _flops(name: str, length: int, sentences: int, settings: Settings) -> int | None:
    """Count FLOPs on the CPU in fp32, from one and two sentences; None if the products would be too large."""
    if _score_bytes(length, settings) > settings.largest_scores:
        return None
    on_cpu = replace(settings, device=torch.device("cpu"), precision="fp32")
    call = AttentionCall(name, on_cpu)

    def count(number: int) -> int:
        call.prepare(make_inputs(length, number, on_cpu, SEED))
        return count_flops(call.run)

    return extrapolate_flops(count, sentences, 2)


def _units(length: int, sentences: int) -> float:
    """Estimate a measurement's time in arbitrary units, between that of a linear and of a quadratic attention."""
    return length * sentences * (1 + length / 2048)


def sweep(
    settings: Settings, progress: PartProgress, own_lengths: Sequence[int], *, tokens: int, count: bool
) -> list[Row]:
    """Return one row for each length and attention, with ``tokens`` in all sentences together."""
    lengths = settings.lengths or own_lengths
    todo = []
    for length in lengths:
        names = [name for name in names_for(settings) if not too_large(name, length, settings)]
        todo.append((length, max(1, tokens // length), names))
    rounds = settings.warm_up + settings.rounds
    progress.expect(rounds * sum(_units(length, number) * len(names) for length, number, names in todo))
    rows = []
    for length, sentences, names in todo:
        found = measure(names, length, sentences, settings, progress=progress, count=count)
        for name in names_for(settings):
            row: Row = {"system": name, "tokens": length, "sentences": sentences}
            if name in found:
                row |= _columns(found[FAIRSEQ], found[name], length * sentences)
            rows.append(row | {"note": "" if name in found else NOT_MEASURED})
    return rows


def _columns(baseline: Measured, own: Measured, tokens: int) -> Row:
    row = speed_columns(baseline.seconds, own.seconds)
    row |= {"us_per_token": 1000 * row["time_ms"] / tokens}
    row |= {"peak_mib": own.peak / MIB, "kib_per_token": own.peak / 1024 / tokens}
    if baseline.flops and own.flops:
        row |= flop_columns(baseline.seconds, own.seconds, baseline.flops, own.flops)
    return row


def run_modules(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part ``module``."""
    rows = sweep(settings, progress, MODULE_LENGTHS, tokens=MODULE_TOKENS, count=True)
    return [{name: value for name, value in row.items() if not name.endswith("_per_token")} for row in rows]


def run_scaling(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part ``scaling``."""
    return sweep(settings, progress, SCALING_LENGTHS, tokens=SCALING_TOKENS, count=False)
