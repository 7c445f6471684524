"""The layers of a model from a text for each site: their sublayers, the names of their modules, and what builds them.

Depends on torch alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core.attention import LocalAttention
from ..errors import UsageError
from ..mechanisms.local_convolution import LocalConvolution
from ..mechanisms.phrasal import parse_granularities
from .build import Text, complete, mechanisms_of
from .parse import Attention, Mechanism, Stack, Stretch, Sublayer, TextError, parse_stack
from .placement import SITES, kept_layers
from .presets import PLAIN, one
from .words import PHRASES, WORDS

ORDINARY = Stack((Stretch(one(PLAIN)),))


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
        """Index of the attention that is named ``self_attn``: the last ``san``, or else the last attention."""
        attentions = [i for i, sublayer in enumerate(self.sublayers) if sublayer.kind == "attention"]
        ordinary = [i for i in attentions if self.kinds[i] == PLAIN]
        return (ordinary or attentions)[-1]


def _kind(sublayer: Sublayer) -> str:
    if not isinstance(sublayer.content, Attention):
        return sublayer.kind
    words = {mechanism.word for mechanism in mechanisms_of(sublayer.content)}
    return words.pop() if len(words) == 1 else "mix"


def is_plain(kinds: Sequence[str]) -> bool:
    """Return whether a layer has fairseq's order: a self-attention of any kind, cross-attention, and ffn."""
    return kinds[0] not in ("ffn", "conv", "cross") and tuple(kinds[1:]) in (("ffn",), ("cross", "ffn"))


class NamedSublayer(NamedTuple):
    """A sublayer's kind and position, and the names of its module and of its layer norm (attributes of the layer).

    ``name`` is empty for the feed-forward network of fairseq's layer, ``fc1`` and ``fc2``.
    """

    kind: str
    name: str
    norm: str
    position: int


def named_sublayers(kinds: Sequence[str], attention: int) -> list[NamedSublayer]:
    """Return the sublayers of a layer with the names of their modules; ``attention``: position of ``self_attn``."""
    ffn = max(position for position, kind in enumerate(kinds) if kind == "ffn")
    named: list[NamedSublayer] = []
    for position, kind in enumerate(kinds):
        if position == attention:
            name, norm = "self_attn", "self_attn_layer_norm"
        elif position == ffn:
            name, norm = "", "final_layer_norm"
        elif kind == "cross":
            name, norm = "encoder_attn", "encoder_attn_layer_norm"
        else:
            base = f"{kind}_attn" if kind == "forward" else kind  # a module has a method of that name
            number = 1 + sum(other.kind == kind and other.name.startswith(base) for other in named)
            name = base if number == 1 else f"{base}{number}"
            norm = f"{name}_layer_norm"
        named.append(NamedSublayer(kind, name, norm, position))
    return named


class LayerBuilder:
    """Builds the attention of every site and layer from the texts of the sites.

    Args:
        texts: site → text, read or to be read; a site without one, and a layer that its text does not name, has
            ordinary attention.
        cfg: the sizes of the model, by the names of fairseq's ``TransformerConfig``.
        flags: site → the command line's flag with its text; errors of a text without a flag do not show it, since the
            user has not written it.
        implementation: how the attentions are computed, one of :data:`kernels.dense.IMPLEMENTATIONS`.

    Raises UsageError for a text that cannot be read or does not fit the model.
    """

    def __init__(
        self, texts: Mapping[str, str | Stack], cfg: Any, flags: Mapping[str, str], implementation: str = "auto"
    ) -> None:
        self.cfg, self.flags, self.implementation = cfg, flags, implementation
        self.stacks: dict[str, Stack] = {}
        self.layers: dict[str, dict[int, Layer]] = {}
        for site in SITES:
            try:
                given = texts.get(site) or ORDINARY
                self.stacks[site] = parse_stack(given) if isinstance(given, str) else given
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
            ranges = stretch.ranges or ((1, max(kept, default=-1) + 1),)
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
        sizes["implementation"] = self.implementation
        heads = self._config(site).attention_heads
        try:
            return plan.text.attention(content, embed_dim, heads, **sizes, **kwargs)
        except ValueError as error:
            raise self._error(site, f"{site} layer {layer + 1}", error) from None

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
        """Return site → attention text, in its shortest form; sites with ordinary attention alone are left out."""
        found = {site: str(stack) for site, stack in self.stacks.items()}
        return {site: text for site, text in found.items() if text != str(ORDINARY)}

    def phrases(self) -> tuple[list[int], bool]:
        """Return the distinct granularities of the encoder's phrases, ascending, and whether trees make them.

        Raises UsageError for layers with different phrases.
        """
        phrases = [each for each in self.mechanisms("encoder") if each.word in PHRASES]
        standard = {name: WORDS[name].options["heads"].default for name in PHRASES}
        kinds = {(each.word, str(each.options.get("heads", standard[each.word]))) for each in phrases}
        if len(kinds) > 1:
            raise UsageError(
                f"the layers of an encoder share their phrases, and these differ: {', '.join(map(str, phrases))}"
            )
        granularities: tuple[int, ...] = ()
        for _, heads in kinds:
            granularities, _ = parse_granularities(heads, self.cfg.encoder.attention_heads)
        return sorted(set(granularities)), any(word == "tree" for word, _ in kinds)

    def mechanisms(self, site: str) -> list[Mechanism]:
        """Return the mechanisms of a site's attentions, once for each kind of layer."""
        layers = {id(layer): layer for layer in self.layers[site].values()}.values()
        contents = [sublayer.content for layer in layers for sublayer in layer.sublayers]
        return [each for content in contents if isinstance(content, Attention) for each in mechanisms_of(content)]


def _plain(site: str) -> Layer:
    """Return the layer of fairseq."""
    text = Text(PLAIN)
    return Layer(complete(text, one(PLAIN), site, 0), text)
