"""What builds the attentions of a model's layers, from a text for each site (see :mod:`fairseq_localattn.grammar`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairseq.models.transformer import TransformerConfig
from fairseq.modules.quant_noise import quant_noise
from torch import nn

from ..core.attention import LocalAttention
from ..errors import UsageError
from ..grammar.build import Text, complete, mechanisms_of
from ..grammar.parse import Attention, Mechanism, Stack, Sublayer, TextError, parse_stack
from ..mechanisms.local_convolution import LocalConvolution
from .placement import SITES, kept_layers

PLAIN = "san"


@dataclass(frozen=True)
class Layer:
    """The sublayers of a layer in order, ``ffn`` and in a decoder ``cross`` included; at cross the one attention."""

    sublayers: tuple[Sublayer, ...]
    text: Text

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each sublayer: ``ffn``, ``cross``, ``conv``, an attention's mechanism, or ``mix`` for several."""
        return tuple(map(_kind, self.sublayers))

    @property
    def plain_attention(self) -> int:
        """The position of the attention that has fairseq's name: the last ``san``, or else the last attention."""
        attentions = [i for i, sublayer in enumerate(self.sublayers) if sublayer.kind == "attention"]
        ordinary = [i for i in attentions if self.kinds[i] == PLAIN]
        return (ordinary or attentions)[-1]


def _kind(sublayer: Sublayer) -> str:
    if not isinstance(sublayer.content, Attention):
        return sublayer.kind
    words = {mechanism.word for mechanism in mechanisms_of(sublayer.content)}
    return words.pop() if len(words) == 1 else "mix"


class AttentionBuilder:
    """Builds the attention of every site and layer from the texts of the sites.

    Args:
        texts: site → text; a site without one, and a layer that its text does not name, has ordinary attention.
        cfg: the sizes of the model.
        flags: site → the command line's flag with its text; errors of a text without a flag do not show it, since the
            user has not written it.

    Raises UsageError for a text that cannot be read or does not fit the model.
    """

    def __init__(self, texts: Mapping[str, str], cfg: TransformerConfig, flags: Mapping[str, str]) -> None:
        self.cfg, self.flags = cfg, flags
        self.stacks: dict[str, Stack] = {}
        self.layers: dict[str, dict[int, Layer]] = {}
        for site in SITES:
            try:
                self.stacks[site] = parse_stack(texts.get(site) or PLAIN)
                self.layers[site] = self._expand(site, self.stacks[site])
            except UsageError as error:
                raise self._error(site, site, error) from None

    def _error(self, site: str, place: str, error: Exception) -> UsageError:
        """Return the error of a site's text with the flag that holds it, or else with the place in the model."""
        if site in self.flags:
            return UsageError(f"{self.flags[site]}: {error}")
        return UsageError(f"{place}: {error.reason if isinstance(error, TextError) else error}")

    def _expand(self, site: str, stack: Stack) -> dict[int, Layer]:
        """Return the layers, from 0, that a text describes."""
        config = self._config(site)
        text = Text(stack.text)
        found: dict[int, Layer] = {}
        for stretch in stack.stretches:
            layer = Layer(complete(text, stretch.sublayers, site, stretch.at), text)
            kept = kept_layers(config.layers, config.layers_to_keep)
            ranges = stretch.ranges or ((1, max(kept, default=0) + 1),)
            # The layers of a pruned stack keep their numbers, so its depth is not an upper bound.
            if not config.layers_to_keep and (highest := max(last for _, last in ranges)) > config.layers:
                raise text.error(f"there is no layer {highest}: the {site} has {config.layers}", stretch.at)
            found |= {n: layer for n in kept if any(first <= n + 1 <= last for first, last in ranges)}
        return found

    def _config(self, site: str) -> Any:
        return self.cfg.encoder if site == "encoder" else self.cfg.decoder

    def layer(self, site: str, layer: int) -> Layer:
        """Return the sublayers of a layer (from 0)."""
        return self.layers[site].get(layer) or _plain(site)

    def check(self, sites: Iterable[str]) -> None:
        """Build the attentions and convolutions of one layer of each kind. Raises UsageError for invalid options."""
        for site in sites:
            for number, layer in {id(layer): (n, layer) for n, layer in reversed(self.layers[site].items())}.values():
                for position, sublayer in enumerate(layer.sublayers):
                    width = self._config(site).embed_dim
                    if sublayer.kind == "attention":
                        cross = site == "cross"
                        self.build(site, number, width, position=position, encoder_decoder_attention=cross)
                    elif sublayer.kind == "conv":
                        self.convolution(site, number, position, width)

    def build(
        self, site: str, layer: int, embed_dim: int, *, position: int | None = None, **kwargs: Any
    ) -> LocalAttention:
        """Return an attention of a site (one of ``SITES``) and a layer (from 0), with the model's sizes.

        ``position`` is that of its sublayer; None: the attention with fairseq's name. ``kwargs`` are further arguments
        of :class:`LocalAttention`. Raises UsageError where the options are invalid.
        """
        plan = self.layer(site, layer)
        content = plan.sublayers[plan.plain_attention if position is None else position].content
        assert isinstance(content, Attention)
        sizes = {"dropout": self.cfg.attention_dropout, "causal": site == "decoder"}
        heads = self._config(site).attention_heads
        try:
            attention = plan.text.attention(content, embed_dim, heads, **sizes, **kwargs)
        except ValueError as error:
            raise self._error(site, f"{site} layer {layer + 1}", error) from None
        noise = self.cfg.quant_noise
        for module in attention.modules():
            if isinstance(module, nn.Linear):
                try:
                    quant_noise(module, noise.pq, noise.pq_block_size)
                except AssertionError as error:
                    raise UsageError(f"--quant-noise-pq-block-size {noise.pq_block_size}: {error}") from None
        return attention

    def convolution(self, site: str, layer: int, position: int, channels: int) -> LocalConvolution:
        """Return the convolution of a sublayer. Raises UsageError for invalid options."""
        plan = self.layer(site, layer)
        content = plan.sublayers[position].content
        assert isinstance(content, Mechanism)
        try:
            return plan.text.convolution(content, channels, causal=site == "decoder")
        except TextError as error:
            raise self._error(site, f"{site} layer {layer + 1}", error) from None

    def texts(self) -> dict[str, str]:
        """Return site → text, in its shortest form, of the sites that are not plain."""
        plain = str(parse_stack(PLAIN))
        found = {site: str(stack) for site, stack in self.stacks.items()}
        return {site: text for site, text in found.items() if text != plain}

    def mechanisms(self, site: str) -> list[Mechanism]:
        """Return the mechanisms of a site's attentions, once for each kind of layer."""
        layers = {id(layer): layer for layer in self.layers[site].values()}.values()
        contents = [sublayer.content for layer in layers for sublayer in layer.sublayers]
        return [each for content in contents if isinstance(content, Attention) for each in mechanisms_of(content)]


_PLAIN_TEXT = Text(PLAIN)


def _plain(site: str) -> Layer:
    """Return the layer of fairseq."""
    return Layer(complete(_PLAIN_TEXT, parse_stack(PLAIN).stretches[0].sublayers, site, 0), _PLAIN_TEXT)
