"""fairseq's encoder and decoder on LocalAttention, for inference alone: the grammar's layers without fairseq.

The modules have the names of fairseq's, so that the weights of a checkpoint are loaded as they are.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.decoding import IncrementalState
from ..core.hooks import is_plain
from ..core.paths import BeamState, Paths
from ..grammar.layers import LayerBuilder, named_sublayers
from ..kernels.passes import forward_pass, may_read, view_of
from ..kernels.projections import in_blocks, linear_by_blocks
from ..mechanisms.phrasal import phrases_of
from ..mechanisms.phrase_memory.partition import partition_of_batch
from .dictionary import PAD
from .sizes import Sizes, StackSizes

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu_,
    "gelu": F.gelu,
    "gelu_accurate": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_fast": lambda x: F.gelu(x, approximate="tanh"),
    "tanh": torch.tanh,
    "linear": lambda x: x,
}
PHRASES = threading.Lock()  # attentions hold the phrases of a batch while it is encoded


class Memory(NamedTuple):
    """The encoder's output S×B×C, and its padding B×S, True = padding, or None without any."""

    x: Tensor
    padding: Tensor | None


class _Stack(nn.Module):
    """Embeddings of words and positions, as fairseq adds them up; the base of encoder and decoder."""

    sinusoids: Tensor | None

    def __init__(self, words: int, stack: StackSizes, sizes: Sizes, longest: int) -> None:
        super().__init__()
        width = stack.embed_dim
        self.scale = math.sqrt(width) if sizes.scale_embedding else 1.0
        self.embed_tokens = nn.Embedding(words, width, PAD)
        self.embed_positions = nn.Embedding(longest + PAD + 1, width, PAD) if learned(stack) else None
        self.layernorm_embedding = nn.LayerNorm(width) if sizes.layernorm_embedding else None
        table = sinusoids(128, width) if stack.positions and not stack.learned_pos else None
        self.register_buffer("sinusoids", table, persistent=False)

    def embed(self, tokens: Tensor, positions: Tensor | int) -> Tensor:
        """Return the embeddings B×T×C of B×T tokens at ``positions``, B×T or one for all; the first is PAD + 1."""
        x = self.embed_tokens(tokens) * self.scale
        if self.embed_positions is not None:
            x += self.embed_positions.weight[positions]
        elif self.sinusoids is not None:
            longest = positions if isinstance(positions, int) else PAD + tokens.size(1)
            table = self.sinusoids  # another thread may put a shorter one there
            if longest >= table.size(0):
                self.sinusoids = table = sinusoids(2 * longest, x.size(-1)).to(table)
            x += table[positions]
        return x if self.layernorm_embedding is None else self.layernorm_embedding(x)


def learned(stack: StackSizes) -> bool:
    """Return whether a stack has a table of positions in its weights."""
    return stack.positions and stack.learned_pos


def sinusoids(count: int, width: int) -> Tensor:
    """Return fairseq's table of sinusoids, count×width; the row of padding is 0."""
    half = width // 2
    steps = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(count, dtype=torch.float)[:, None] * steps
    table = torch.cat([angles.sin(), angles.cos(), torch.zeros(count, width % 2)], dim=1)
    table[PAD] = 0
    return table


class Layer(nn.Module):
    """A layer of any sublayers in order, each with its residual connection and layer norm."""

    def __init__(self, builder: LayerBuilder, site: str, number: int, sizes: Sizes) -> None:
        super().__init__()
        stack = sizes.encoder if site == "encoder" else sizes.decoder
        plan, width = builder.layer(site, number), stack.embed_dim
        self.pre, self.function = stack.normalize_before, FUNCTIONS[sizes.activation_fn]
        self.sublayers = named_sublayers(plan.kinds, plan.plain_attention)
        for sublayer in self.sublayers:
            if sublayer.kind == "ffn":
                first, second = nn.Linear(width, stack.ffn_embed_dim), nn.Linear(stack.ffn_embed_dim, width)
                if sublayer.name:
                    self.add_module(sublayer.name, nn.ModuleDict({"fc1": first, "fc2": second}))
                else:
                    self.fc1, self.fc2 = first, second
            elif sublayer.kind == "conv":
                self.add_module(sublayer.name, builder.convolution(site, number, sublayer.position, width))
            elif sublayer.kind == "cross":
                keys: dict[str, Any] = {"kdim": sizes.encoder.embed_dim, "vdim": sizes.encoder.embed_dim}
                module = builder.build("cross", number, width, encoder_decoder_attention=True, **keys)
                self.add_module(sublayer.name, module)
            else:
                position = sublayer.position
                module = builder.build(site, number, width, position=position, self_attention=True)
                self.add_module(sublayer.name, module)
            self.add_module(sublayer.norm, nn.LayerNorm(width))

    def forward(
        self,
        x: Tensor,
        padding: Tensor | None,
        memory: Memory | None = None,
        state: IncrementalState | None = None,
    ) -> Tensor:
        """Apply the layer to x, T×B×C.

        Args:
            x: T×B×C; in decoding one position.
            padding: B×T, True = padding; None in decoding.
            memory: in a decoder, the encoder's output, which the first step alone reads; later ones read the state.
                Rows of several hypotheses of each sentence stand hypothesis by hypothesis.
            state: the state of decoding; None in an encoder.
        """
        for kind, name, norm_name, _ in self.sublayers:
            norm = getattr(self, norm_name)
            y = norm(x) if self.pre else x
            if kind == "ffn":
                networks = getattr(self, name) if name else {"fc1": self.fc1, "fc2": self.fc2}
                y = networks["fc2"](self.function(networks["fc1"](y)))
            elif kind == "conv":
                y = getattr(self, name)(y, padding, state)
            elif kind == "cross":
                assert memory is not None
                shared: dict[str, Any] = {"incremental_state": state, "need_weights": False, "static_kv": True}
                y = getattr(self, name)(y, memory.x, memory.x, key_padding_mask=memory.padding, **shared)[0]
            else:
                shared = {"incremental_state": state, "need_weights": False}
                y = getattr(self, name)(y, y, y, key_padding_mask=padding, **shared)[0]
            x = x + y
            x = x if self.pre else norm(x)
        return x


class Encoder(_Stack):
    """fairseq's encoder, with phrases where its layers have them."""

    def __init__(self, words: int, sizes: Sizes, builder: LayerBuilder) -> None:
        super().__init__(words, sizes.encoder, sizes, sizes.max_source_positions)
        self.layers = nn.ModuleList(Layer(builder, "encoder", n, sizes) for n in range(sizes.encoder.layers))
        self.layer_norm = nn.LayerNorm(sizes.encoder.embed_dim) if sizes.encoder.final_norm else None
        self.granularities, self.of_trees = builder.phrases()

    def forward(self, tokens: Tensor, phrases: Tensor | None = None) -> Memory:
        """Encode B×T tokens, padded on either side.

        ``phrases``: B×K×P, of a model with trees the lengths of the phrases on each level, </s> included; 0 = none.
        """
        mask = tokens.eq(PAD)
        padding = mask if not may_read(tokens.device) or bool(mask.any()) else None
        positions = (~mask).cumsum(dim=1).masked_fill(mask, 0) + PAD
        x = self.embed(tokens, positions)
        x = (x if padding is None else x.masked_fill(mask[..., None], 0)).transpose(0, 1)
        with forward_pass(), ExitStack() as stack:
            if self.granularities:
                stack.enter_context(PHRASES)
                partition = partition_of_batch(mask, self.granularities, phrases, of_trees=self.of_trees)
                stack.enter_context(phrases_of(self, partition))
            for layer in self.layers:
                x = layer(x, padding)
        return Memory(x if self.layer_norm is None else self.layer_norm(x), padding)


class _LaidOut(NamedTuple):
    """Weights laid out for decoding, and ``views``, by which a change of the model's weights is noticed.

    ``weights`` are held so that their memory is not given to others. ``joined``: projections of attentions, filled by
    the first step. ``blocks``: the output projection; empty unless it is a product of fp32 on a CPU.
    """

    views: list[Hashable]
    weights: list[Tensor]
    joined: IncrementalState
    blocks: list[Tensor]


class _DecoderState(BeamState):
    """The state of one decoding, with the weights that were laid out when it began."""

    def __init__(self, laid_out: _LaidOut, kept_in: torch.dtype | None) -> None:
        super().__init__(laid_out.joined)
        self.laid_out, self.kept_in = laid_out, kept_in


class Decoder(_Stack):
    """fairseq's decoder, word by word."""

    def __init__(self, words: int, sizes: Sizes, builder: LayerBuilder) -> None:
        super().__init__(words, sizes.decoder, sizes, sizes.max_target_positions)
        self.layers = nn.ModuleList(Layer(builder, "decoder", n, sizes) for n in range(sizes.decoder.layers))
        self.layer_norm = nn.LayerNorm(sizes.decoder.embed_dim) if sizes.decoder.final_norm else None
        self.output_projection = nn.Linear(sizes.decoder.embed_dim, words, bias=False)
        self._laid_out = _LaidOut([], [], {}, [])
        self.kept_in: torch.dtype | None = None  # see BeamState

    def start(self) -> BeamState:
        """Return the state of a new decoding, with weights laid out for an earlier one while none of them changes.

        A change through ``.data`` of a parameter is not noticed, as torch does not count it.
        """
        output = self.output_projection
        weights = [*self.layers.parameters(), *self.layers.buffers(), *output.parameters()]
        views, laid_out = [view_of(x) for x in weights], self._laid_out
        if views != laid_out.views:
            by_blocks = is_plain(output) and output.weight.device.type == "cpu" and output.weight.dtype == torch.float
            blocks = in_blocks(output.weight.detach()) if by_blocks else []
            laid_out = self._laid_out = _LaidOut(views, [x.detach() for x in weights], {}, blocks)
        return _DecoderState(laid_out, self.kept_in)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: all but the weights that were laid out."""
        return {**self.__dict__, "_laid_out": _LaidOut([], [], {}, [])}

    def forward(self, tokens: Tensor, step: int | Tensor, memory: Memory, state: IncrementalState) -> Tensor:
        """Return the logits R×V after the tokens R at position ``step``, from 0, for the decoding of ``state``.

        Rows of several hypotheses of each sentence stand hypothesis by hypothesis.
        """
        if isinstance(state, BeamState):
            state.begin_step(tokens)
        x = self.embed(tokens[:, None], PAD + 1 + step).transpose(0, 1)
        with forward_pass():
            for layer in self.layers:
                x = layer(x, None, memory, state)
        x = x[0] if self.layer_norm is None else self.layer_norm(x[0])
        output = self.output_projection
        if isinstance(state, _DecoderState):
            laid_out = state.laid_out
            if not laid_out.joined:
                laid_out.joined.update({name: kept for name, kept in state.items() if name.endswith("projections")})
            if laid_out.blocks and is_plain(output) and output.bias is None and not torch.is_grad_enabled():
                return linear_by_blocks(x, laid_out.blocks)
        return output(x)

    def reorder(self, state: BeamState, rows: Tensor, sentences: Tensor | None) -> None:
        """Let row r of the state become the former row ``rows[r]``. ``sentences``: those that stay, None: all."""
        count = len(sentences) if sentences is not None else cast(Paths, state.paths).sentences
        columns = state.reorder(rows, count)
        for layer in self.layers:
            for kind, name, _, _ in layer.sublayers:  # type: ignore[union-attr]
                if kind == "ffn":
                    continue
                module = getattr(layer, name)
                if kind not in ("conv", "cross") and module.paths_of(state) is not None:
                    module.follow(state, sentences, columns)
                elif kind != "cross":
                    module.reorder_incremental_state(state, rows)
                elif sentences is not None:
                    module.reorder_incremental_state(state, sentences)


class Model(nn.Module):
    """An encoder and a decoder of one checkpoint, with random weights."""

    def __init__(self, sizes: Sizes, source_words: int, target_words: int) -> None:
        super().__init__()
        self.sizes = sizes
        builder = LayerBuilder(sizes.texts, sizes, flags={})
        self.encoder = Encoder(source_words, sizes, builder)
        self.decoder = Decoder(target_words, sizes, builder)
