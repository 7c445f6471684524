"""Encoder and a step of the decoder as programs of torch.export: tensors in, tensors out, any batch and any lengths.

    padding, memory, past = encoder(tokens)
    logits, past = decoder(words, step, padding, memory, past)

``tokens``: B×T, sentences with their ends, padded on either side. ``memory``: keys and values of the sentences for the
decoder. ``past``: keys and values of the words so far, at first of none. ``words``: B, the last words, at first </s>.
``step``: their number from 0, a tensor without dimensions. ``logits``: B×V. A beam repeats rows of all of them.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from ..core.attention import LocalAttention
from ..core.decoding import IncrementalState, cached
from ..errors import UsageError
from ..files import replaced
from .dictionary import EOS, PAD
from .linear import Int8Linear
from .model import Memory, Model, sinusoids

_OF_TORCH = """
import torch

encoder, decoder = ({} for name in ("encoder", "decoder"))
padding, memory, past = encoder(tokens)
words, step = torch.full((len(tokens),), 2), torch.tensor(0)
logits, past = decoder(words, step, padding, memory, past)
"""
_OF_ONNX = """
import json
import numpy as np
import onnxruntime

names = json.load(open("model.json", encoding="utf-8"))["programs"]
encoder, decoder = (onnxruntime.InferenceSession(f"{name}.onnx") for name in ("encoder", "decoder"))
padding, *state = encoder.run(None, {"tokens": tokens})
given = {"words": np.full(len(tokens), 2), "step": np.array(0), "padding": padding}
logits, *past = decoder.run(None, {**given, **dict(zip(names["memory"] + names["past"], state))})
"""
#: Format → the calls that use its programs.
CALLS = {
    "pt2": _OF_TORCH.format('torch.export.load(f"{name}.pt2").module()'),
    "aoti": _OF_TORCH.format('torch._inductor.aoti_load_package(f"{name}.pt2")'),
    "onnx": _OF_ONNX,
}
FORMATS = tuple(CALLS)
PADDING = "prev_key_padding_mask"
LEAST = (1, 16)  # the fewest tokens of a source; the second for mechanisms that cannot be exported for fewer
MOST_SENTENCES = 1 << 16


class Entry(NamedTuple):
    """A tensor of the decoder's state: its module, by name and key in the state, and its name there."""

    module: str
    key: str
    name: str


class Programs(NamedTuple):
    """Both programs, the names of ``memory`` and ``past``, the least number of tokens of a source, and the format."""

    encoder: ExportedProgram
    decoder: ExportedProgram
    memory: list[str]
    past: list[str]
    least: int
    format: str = "pt2"

    def about(self) -> dict[str, Any]:
        """Return what a caller needs to know, for a JSON."""
        return {"format": self.format, "least_tokens": self.least, "memory": self.memory, "past": self.past}


def check_format(name: str) -> None:
    """Raise UsageError where a format of :data:`FORMATS` cannot be written on this machine."""
    if name == "onnx" and (missing := [each for each in ("onnx", "onnxscript") if find_spec(each) is None]):
        raise UsageError(f"--format onnx: needs packages: pip install {' '.join(missing)}")
    if name == "aoti" and not any(map(shutil.which, (os.environ.get("CXX") or "c++", "g++", "clang++"))):
        raise UsageError("--format aoti: needs a C++ compiler: install g++, or use --format pt2")


def files_of(format: str) -> tuple[str, ...]:
    """Return the names of encoder and decoder in a folder; () for ``safetensors``, which has no programs."""
    ending = "onnx" if format == "onnx" else "pt2"
    return (f"encoder.{ending}", f"decoder.{ending}") if format in FORMATS else ()


def write(programs: Programs, folder: Path) -> None:
    """Write both programs to a folder, in their format."""
    inputs = [["tokens"], ["words", "step", "padding", *programs.memory, *programs.past]]
    outputs = [["padding", *programs.memory, *programs.past], ["logits", *(f"new.{name}" for name in programs.past)]]
    files = files_of(programs.format)
    for number, (name, program) in enumerate(zip(files, (programs.encoder, programs.decoder), strict=True)):
        with warnings.catch_warnings(), replaced(folder / name) as part:
            warnings.simplefilter("ignore")
            if programs.format == "aoti":
                whole = part.with_suffix(".pt2")  # a name that torch asks for
                torch._inductor.aoti_compile_and_package(program, package_path=str(whole))
                whole.rename(part)
            elif programs.format == "pt2":
                with open(part, "wb") as stream:
                    torch.export.save(program, stream)
            else:
                names: dict[str, Any] = {"input_names": inputs[number], "output_names": outputs[number]}
                try:
                    torch.onnx.export(program, (), part, dynamo=True, external_data=False, verbose=False, **names)
                except torch.onnx.OnnxExporterError as error:
                    operation = re.search(r"op='([\w.]+)'", str(error))
                    raise UsageError(
                        f"--format onnx: torch has no form in ONNX of {operation[1] if operation else 'an operation'} "
                        f"of the {name.partition('.')[0]}: use --format pt2"
                    ) from None


def programs_of(model: Model) -> Programs:
    """Return the programs of a model, which is changed: attention is computed by torch's own function from now on.

    Raises UsageError, one line, for a model that cannot be exported.
    """
    if model.encoder.of_trees:
        raise UsageError("phrases of trees cannot be exported: their number and depth differ with each sentence")
    if not hasattr(torch.compiler, "is_exporting"):
        raise UsageError("torch 2.7 or later is needed to export programs: update torch, or use --format safetensors")
    for module in model.modules():
        if isinstance(module, LocalAttention):
            module.implementation = "sdpa"
        elif isinstance(module, Int8Linear):
            module.prepacked = None
    sizes = model.sizes
    for stack, longest in ((model.encoder, sizes.max_source_positions), (model.decoder, sizes.max_target_positions)):
        if stack.sinusoids is not None:  # else the table would grow with the lengths
            stack.sinusoids = sinusoids(longest + PAD + 2, stack.sinusoids.size(1))
    error: Exception
    # torch warns of its own code. With gradients, projections are not joined, which would copy their weights.
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        for least in LEAST:
            try:
                return _programs(model.requires_grad_(False), least)
            except Exception as raised:  # of many kinds; also by the trial of a program with few words
                error = raised
    texts = "; ".join(f"{site}: {text}" for site, text in model.sizes.texts.items()) or "san"
    detail = " ".join(str(error).split())[:160]
    raise UsageError(f"{texts}: cannot be exported for all lengths; use --format safetensors ({detail})") from None


def _programs(model: Model, least: int) -> Programs:
    """Return the programs for sources of ``least`` tokens or more, after a comparison with the model for the fewest."""
    words, tokens = torch.full((2,), EOS), torch.full((2, least + 3), EOS)
    tokens[0, :2] = PAD
    memory, state = model.encoder(tokens), IncrementalState()  # of rows: a program cannot follow paths
    for step in range(2):
        model.decoder(words, step, memory, state)
    of_memory, of_past = (list(_entries(model, state, cross=cross)) for cross in (True, False))
    past = [cached(state[entry.key], entry.name) for entry in of_past]
    empty = [x[:, :, :0] if x.dim() == 4 else torch.zeros_like(x) for x in past]
    encoder, decoder = _Encoder(model, of_memory, empty), _Step(model, of_memory, of_past)
    batch = Dim("batch", min=1, max=MOST_SENTENCES)
    source = Dim("source", min=least, max=model.sizes.max_source_positions)
    before = Dim("past", min=0, max=model.sizes.max_target_positions)
    sizes_of_past = [{0: batch, 2: before} if x.dim() == 4 else {0: batch} for x in past]
    sizes: tuple[Any, ...] = (
        {0: batch},
        {},
        {0: batch, 1: source},
        [{0: batch, 2: source}] * len(of_memory),
        sizes_of_past,
    )
    padding, of_sentences, _ = encoder(tokens)
    found = Programs(
        _export(encoder, (tokens,), ({0: batch, 1: source},)),
        _export(decoder, (words, torch.tensor(2), padding, of_sentences, past), sizes),
        [f"{each.module}.{each.name}" for each in of_memory],
        [f"{each.module}.{each.name}" for each in of_past],
        least=least,
    )
    logits = []
    for first, second in ((encoder, decoder), (found.encoder.module(), found.decoder.module())):
        logits.append(second(words[:1], torch.tensor(0), *first(tokens[1:, :least]))[0])
    torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-3)
    return found


def _export(module: nn.Module, given: tuple[Any, ...], shapes: tuple[Any, ...]) -> ExportedProgram:
    return torch.export.export(
        module, given, dynamic_shapes=shapes, strict=False, prefer_deferred_runtime_asserts_over_guards=True
    )


def _attentions(model: Model) -> Iterator[tuple[str, str, Any]]:
    """Yield kind, name and module of the decoder's sublayers that have a state."""
    for number, layer in enumerate(model.decoder.layers):
        for kind, name, _, _ in layer.sublayers:  # type: ignore[union-attr]
            if kind != "ffn":
                yield kind, f"layers.{number}.{name}", getattr(layer, name)


def _entries(model: Model, state: IncrementalState, *, cross: bool) -> Iterator[Entry]:
    for kind, name, module in _attentions(model):
        if (kind == "cross") == cross:
            key = module.cache.key if isinstance(module, LocalAttention) else module.state_key
            yield from (Entry(name, key, each) for each in state[key] if each != PADDING)


class _Encoder(nn.Module):
    """The encoder, and the projections of its output to keys and values of the decoder."""

    def __init__(self, model: Model, memory: list[Entry], empty: list[Tensor]) -> None:
        super().__init__()
        self.encoder, self.width, self.memory = model.encoder, model.sizes.decoder.embed_dim, memory
        self.cross = nn.ModuleList(module for kind, _, module in _attentions(model) if kind == "cross")
        self.empty = [x.shape[1:] for x in empty]

    def forward(self, tokens: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        memory = self.encoder(tokens)
        state: IncrementalState = {}
        x, shared = memory.x, {"incremental_state": state, "need_weights": False, "static_kv": True}
        for attention in self.cross:
            query = x.new_zeros(1, tokens.size(0), self.width)
            attention(query, x, x, key_padding_mask=memory.padding, **shared)
        found = [cached(state[entry.key], entry.name) for entry in self.memory]
        return memory.padding, found, [x.new_zeros(tokens.size(0), *shape) for shape in self.empty]


class _Step(nn.Module):
    """A step of the decoder."""

    def __init__(self, model: Model, memory: list[Entry], past: list[Entry]) -> None:
        super().__init__()
        self.decoder, self.memory, self.past = model.decoder, memory, past

    def forward(
        self, words: Tensor, step: Tensor, padding: Tensor, memory: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        state: IncrementalState = {}
        for entries, tensors, mask in ((self.memory, memory, padding), (self.past, past, None)):
            for entry, tensor in zip(entries, tensors, strict=True):
                state.setdefault(entry.key, {PADDING: mask})[entry.name] = tensor
        logits = self.decoder(words, step, Memory(padding, padding), state)  # whose keys are in the state
        return logits, [cached(state[entry.key], entry.name) for entry in self.past]
