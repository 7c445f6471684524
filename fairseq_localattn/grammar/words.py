"""The words of the grammar: each names a mechanism, whose options are the keyword arguments of its class."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..core.attention import LocalAttention
from ..core.composed import Maker
from ..errors import nearest
from ..mechanisms.alibi import LinearBiasAttention
from ..mechanisms.block import BlockAttention
from ..mechanisms.convolutional import ConvolutionalAttention
from ..mechanisms.gaussian import GaussianAttention, GaussianProductAttention
from ..mechanisms.masked import DynamicMaskAttention, StaticMaskAttention
from ..mechanisms.mixed import MixedAttention
from ..mechanisms.phrasal import MultiGranularityAttention, parse_granularities
from ..mechanisms.relative import BucketedAttention, RelativeAttention
from ..mechanisms.rotary import RotaryAttention
from ..mechanisms.sinks import SinkAttention
from ..mechanisms.windowed import AdditiveWindowAttention, MultiplicativeWindowAttention
from .parse import Mechanism, Value

# Arguments of LocalAttention that the place in a model decides.
PLACED = {"self_attention", "encoder_decoder_attention", "kdim", "vdim", "dropout", "bias", "causal", "implementation"}
PLACED |= {"head_dim", "part"}
LARGEST = 2**31  # of a number
CONSTANTS: dict[str, Value] = {"true": True, "false": False, "none": None}


def local(embed_dim: int, num_heads: int, *, window: int = 1, **kwargs: Any) -> LocalAttention:
    """Return heads that see the keys at distance ≤ ``window``."""
    return MixedAttention(embed_dim, num_heads, head_kinds=["local"] * num_heads, window=window, **kwargs)


def forward(embed_dim: int, num_heads: int, **kwargs: Any) -> LocalAttention:
    """Return heads that see themselves and the future."""
    return MixedAttention(embed_dim, num_heads, head_kinds=["forward"] * num_heads, **kwargs)


def backward(embed_dim: int, num_heads: int, **kwargs: Any) -> LocalAttention:
    """Return heads that see themselves and the past."""
    return MixedAttention(embed_dim, num_heads, head_kinds=["backward"] * num_heads, **kwargs)


def gauss(embed_dim: int, num_heads: int, *, product: bool = False, **kwargs: Any) -> LocalAttention:
    """Return heads with a Gaussian, in the scores or, with ``product``, in the weights."""
    return (GaussianProductAttention if product else GaussianAttention)(embed_dim, num_heads, **kwargs)


def phrases(
    embed_dim: int,
    num_heads: int,
    *,
    heads: str = "word,2,3,4",
    composition: str = "sans",
    interaction: str = "onlstm",
    chunk: int = 1,
    **kwargs: Any,
) -> LocalAttention:
    """Return heads of words and heads of phrases; ``heads`` as in ``word:1,2:3``."""
    granularities, _ = parse_granularities(heads, num_heads)
    distinct = sorted(set(granularities))
    return MultiGranularityAttention(
        embed_dim,
        num_heads,
        granularities=[distinct.index(each) for each in granularities],
        composition=composition,
        interaction=interaction,
        chunk=chunk,
        **kwargs,
    )


@dataclass(frozen=True)
class Option:
    """The type and the default of an option."""

    kinds: tuple[type, ...]
    default: Value

    def value(self, written: Value) -> Value:
        """Return what is written as a value, such as True for ``true``. Raises ValueError for another type."""
        meant = CONSTANTS.get(written, written) if isinstance(written, str) else written
        if isinstance(meant, (bool, str, type(None))) and type(meant) in self.kinds:
            return meant
        if isinstance(written, str) and str in self.kinds:
            return written
        whole = isinstance(written, int) and int in self.kinds
        if isinstance(written, (int, float)) and not isinstance(written, bool):
            if (whole or float in self.kinds) and abs(written) < LARGEST:
                return written
        raise ValueError(f"must be {self}, not {written!r}")

    def __str__(self) -> str:
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", type(None): "none"}
        return " or ".join(names[kind] for kind in self.kinds)


@dataclass(frozen=True)
class Word:
    """A mechanism of the grammar.

    Args:
        make: builds its attention; its keyword-only arguments are the options.
        about: what it is, in a line.
        source: the class whose ``undefined_at`` holds, where ``make`` is a function.
        defaults: options with another default than in ``make``.
        undefined_at: further sites where the word is not defined, with the reason.
    """

    make: Maker
    about: str
    source: type[LocalAttention] = LocalAttention
    defaults: Mapping[str, Value] = field(default_factory=dict)
    undefined_at: Mapping[str, str] = field(default_factory=dict)

    def reason_against(self, site: str) -> str | None:
        """Return why the mechanism is not defined at a site (encoder, decoder, cross); None if it is."""
        source = self.make if self.source is LocalAttention else self.source
        return {**getattr(source, "undefined_at", {}), **self.undefined_at}.get(site)

    @property
    def options(self) -> dict[str, Option]:
        """The options by name."""
        return _options(self.make) | {
            name: Option(_options(self.make)[name].kinds, value) for name, value in self.defaults.items()
        }


ALONE = "it would see nothing but its own position in a causal decoder"
WORDS: dict[str, Word] = {
    "san": Word(LocalAttention, "ordinary self-attention"),
    "global": Word(LocalAttention, "the same: heads that see every word"),
    "local": Word(local, "sees the words at distance ≤ window (MMA)", MixedAttention),
    "forward": Word(forward, "sees itself and the future (MMA)", MixedAttention, undefined_at={"decoder": ALONE}),
    "backward": Word(backward, "sees itself and the past (MMA)", MixedAttention),
    "csan": Word(ConvolutionalAttention, "a window of positions and of neighbouring heads (CSAN)"),
    "dman": Word(DynamicMaskAttention, "a learned soft mask of query, distance and head (MAN)"),
    "sman": Word(StaticMaskAttention, "a static band (MAN)"),
    "mw": Word(MultiplicativeWindowAttention, "weights times a differentiable window (DiffWin)"),
    "aw": Word(AdditiveWindowAttention, "local scores in a differentiable window, added (DiffWin)"),
    "ngram": Word(phrases, "heads that attend to n-grams (MG-SA)", MultiGranularityAttention),
    "tree": Word(
        phrases, "heads that attend to constituents (MG-SA)", MultiGranularityAttention, {"heads": "word,1,2,3"}
    ),
    "shaw": Word(RelativeAttention, "vectors of distances in keys and values (Shaw et al.)"),
    "gauss": Word(gauss, "a Gaussian around a centre (Yang, Luong, Sperber et al.)", GaussianAttention),
    "block": Word(BlockAttention, "within blocks and between them (Bi-BloSAN)"),
    "rope": Word(RotaryAttention, "rotary positions"),
    "alibi": Word(LinearBiasAttention, "a penalty linear in the distance"),
    "t5": Word(BucketedAttention, "a bias for buckets of distances (T5)"),
    "sinks": Word(SinkAttention, "a sliding window and the first words"),
}
KINDS = {"san": "global", "global": "global", "local": "local", "forward": "forward", "backward": "backward"}
PHRASES = ("ngram", "tree")


def word(name: str, **options: Value) -> Mechanism:
    """Return the mechanism of a word, with only those of the ``options`` that differ from their defaults."""
    known = WORDS[name].options
    return Mechanism(name, {key: value for key, value in options.items() if value != known[key].default})


@cache
def _options(make: Maker) -> dict[str, Option]:
    """Return the options of a class or function: keyword-only arguments, of base classes too."""
    found: dict[str, Option] = {}
    classes = [LocalAttention, *([GaussianAttention] if make is gauss else [])]
    if isinstance(make, type):
        classes += [each for each in reversed(make.__mro__) if issubclass(each, LocalAttention)]
    functions = [vars(each)["__init__"] for each in classes if "__init__" in vars(each)]
    for function in functions if isinstance(make, type) else [*functions, make]:
        hints = get_type_hints(function)
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in PLACED:
                found[parameter.name] = Option(_kinds(hints[parameter.name]), parameter.default)
    return found


def _kinds(hint: Any) -> tuple[type, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def or_known(word: str, words: Iterable[str]) -> str:
    """Return '; did you mean X?' for the known word nearest to a misspelt one, or else the known words."""
    known = list(words)
    meant = nearest(word, known, cutoff=0.5)
    return f"; did you mean {meant!r}?" if meant else f": there are {', '.join(known)}" if known else ""
