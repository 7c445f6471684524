"""Builds the modules that an attention text describes. Depends on torch alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

from ..core.attention import LocalAttention
from ..core.composed import GroupedAttention, JointAttention, Maker
from ..mechanisms.local_convolution import LocalConvolution
from ..mechanisms.mixed import MixedAttention
from .parse import Attention, Group, Mechanism, Sublayer, TextError, parse_attention
from .words import KINDS, WORDS, Option, or_known

FFN = Sublayer(Mechanism("ffn"))
CROSS = Sublayer(Mechanism("cross"))
CONVOLUTION = {"kernel": Option((int,), 7), "form": Option((str,), "separable")}


def reason_against(sublayers: Iterable[Sublayer], site: str) -> str | None:
    """Return why a sublayer cannot stand at a site (encoder, decoder, cross); None if all can."""
    for sublayer in sublayers:
        if isinstance(sublayer.content, Attention):
            reasons = [WORDS[each.word].reason_against(site) for each in mechanisms_of(sublayer.content)]
        else:
            reasons = [LocalConvolution.undefined_at.get(site)] if sublayer.kind == "conv" else []
        if reason := next(filter(None, reasons), None):
            return reason
    return None


class Text:
    """An attention text, with what is built from its parts; errors show the place in the text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, message: str, at: int) -> TextError:
        return TextError(self.text, at, message)

    def check(self, attention: Attention, site: str) -> None:
        """Raise TextError for an unknown word or option, and for a mechanism that is not defined at the site."""
        for mechanism in mechanisms_of(attention):
            if mechanism.word not in WORDS:
                raise self.error(
                    f"there is no mechanism {mechanism.word!r}{or_known(mechanism.word, WORDS)}", mechanism.at
                )
            if reason := WORDS[mechanism.word].reason_against(site):
                names = {"encoder": "an encoder", "decoder": "a decoder", "cross": "the attention to the encoder"}
                raise self.error(f"{mechanism.word} is not defined in {names[site]}: {reason}", mechanism.at)
            self.check_options(mechanism, WORDS[mechanism.word].options)

    def check_options(self, mechanism: Mechanism, known: dict[str, Option]) -> None:
        """Raise TextError for an unknown option and for a value of another type."""
        for name, value in mechanism.options.items():
            at = mechanism.option_at.get(name, mechanism.at)
            if name not in known:
                raise self.error(f"{mechanism.word} has no option {name!r}{or_known(name, known)}", at)
            try:
                known[name].value(value)
            except ValueError as error:
                raise self.error(f"{name} {error}", at) from None

    def attention(self, attention: Attention, embed_dim: int, num_heads: int, **kwargs: Any) -> LocalAttention:
        """Return the module of a parsed attention; ``kwargs`` are those of LocalAttention. Raises TextError."""
        makers = list(self._makers(attention, num_heads))
        if len(makers) == 1:
            return self._build(makers[0][1], makers[0][2], embed_dim, num_heads, **kwargs)
        groups = [(count, partial(self._build, maker, at)) for count, maker, at in makers]
        return self._build(partial(GroupedAttention, groups=groups), attention.at, embed_dim, num_heads, **kwargs)

    def convolution(self, mechanism: Mechanism, channels: int, causal: bool) -> LocalConvolution:
        """Return a sublayer ``conv``. Raises TextError."""
        self.check_options(mechanism, CONVOLUTION)
        try:
            return LocalConvolution(channels, causal=causal, **values_of(mechanism, CONVOLUTION))
        except ValueError as error:
            raise self.error(str(error), mechanism.at) from None

    def _shares(self, attention: Attention, heads: int) -> Iterator[tuple[int, Group]]:
        """Yield the groups with their numbers of heads."""
        groups = attention.groups
        if groups[0].heads is None:
            if heads % len(groups):
                raise self.error(f"{len(groups)} groups do not share {heads} heads equally: give numbers", attention.at)
            yield from ((heads // len(groups), group) for group in groups)
            return
        total = sum(group.heads or 0 for group in groups)
        if total != heads:
            raise self.error(f"the groups have {total} heads together, and the model has {heads}", attention.at)
        yield from ((group.heads or 0, group) for group in groups)

    def _makers(self, attention: Attention, heads: int) -> Iterator[tuple[int, Maker, int]]:
        """Yield number of heads, maker and place of each part; adjacent kinds of MMA's heads are one part."""
        for mixed, run in groupby(self._shares(attention, heads), key=lambda share: _is_mixed(share[1])):
            shares = list(run)
            windows = {group.mechanisms[0].options.get("window", 1) for _, group in shares if _word(group) == "local"}
            if mixed and len(shares) > 1 and len(windows) < 2:
                kinds = [KINDS[_word(group)] for count, group in shares for _ in range(count)]
                options: dict[str, Any] = {"head_kinds": kinds, "window": windows.pop() if windows else 1}
                make = partial(MixedAttention, **options)
                yield len(kinds), make, shares[0][1].at
            else:
                yield from ((count, self._maker(group), group.at) for count, group in shares)

    def _maker(self, group: Group) -> Maker:
        if len(group.mechanisms) == 1:
            return _single(group.mechanisms[0])
        words = [mechanism.word for mechanism in group.mechanisms]
        if twice := next((word for word in words if words.count(word) > 1), None):
            raise self.error(f"{twice} stands twice on the same heads", group.at)
        makers = [partial(self._build, _single(each), each.at) for each in group.mechanisms]
        return partial(JointAttention, makers=makers, names=words)

    def _build(self, make: Maker, at: int, *args: Any, **kwargs: Any) -> LocalAttention:
        """Call a maker; its ValueErrors show the place in the text."""
        try:
            return make(*args, **kwargs)
        except TextError:
            raise
        except ValueError as error:
            raise self.error(str(error), at) from None


def complete(text: Text, given: tuple[Sublayer, ...], site: str, at: int) -> tuple[Sublayer, ...]:
    """Check the sublayers of a layer, and add those that are left out: ``cross`` and ``ffn``. Raises TextError."""
    for sublayer in given:
        if isinstance(sublayer.content, Attention):
            text.check(sublayer.content, site)
        elif sublayer.kind == "conv":
            text.check_options(sublayer.content, CONVOLUTION)
    kinds = [sublayer.kind for sublayer in given]
    if "attention" not in kinds:
        raise text.error("no word would see another: a layer needs a self-attention, such as san", at)
    if site == "cross":
        if len(given) > 1:
            raise text.error("the attention to the encoder is one attention: sublayers belong to the decoder", at)
        return given
    if site == "encoder" and "cross" in kinds:
        raise text.error("an encoder has no cross", at)
    if kinds.count("cross") > 1:
        raise text.error("cross stands twice", at)
    found = list(given)
    if site == "decoder" and "cross" not in kinds:
        last = max(i for i, kind in enumerate(kinds) if kind == "attention")
        found.insert(last + 1, CROSS)
    if "ffn" not in kinds:
        found.append(FFN)
    return tuple(found)


def _word(group: Group) -> str:
    return group.mechanisms[0].word


def _is_mixed(group: Group) -> bool:
    """Return whether a group is a kind of MMA's heads, which :class:`MixedAttention` computes together."""
    return len(group.mechanisms) == 1 and _word(group) in KINDS and set(group.mechanisms[0].options) <= {"window"}


def _single(mechanism: Mechanism) -> Maker:
    word = WORDS[mechanism.word]
    options: dict[str, Any] = {**word.defaults, **values_of(mechanism, word.options)}
    return partial(word.make, **options)


def values_of(mechanism: Mechanism, known: dict[str, Option]) -> dict[str, Any]:
    """Return the values that the options of a checked mechanism stand for."""
    return {name: known[name].value(written) for name, written in mechanism.options.items()}


def mechanisms_of(attention: Attention) -> Iterator[Mechanism]:
    """Yield the mechanisms of all groups."""
    for group in attention.groups:
        yield from group.mechanisms


def attention(text: str, embed_dim: int, num_heads: int, *, site: str = "encoder", **kwargs: Any) -> LocalAttention:
    """Return the attention that a text such as ``2*local(window=8) + 6*global`` describes.

    Args:
        text: the groups of heads; see :mod:`fairseq_localattn.grammar.parse`.
        embed_dim: C.
        num_heads: H; must divide C.
        site: encoder, decoder or cross.
        kwargs: further arguments of :class:`LocalAttention`.

    Raises TextError, with the place in the text.
    """
    reader, parsed = Text(text), parse_attention(text)
    reader.check(parsed, site)
    return reader.attention(parsed, embed_dim, num_heads, causal=site == "decoder", **kwargs)
