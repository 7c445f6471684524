"""The papers' models as parsed attention texts, made from a variant's options as a checkpoint holds them.

Depends on torch alone, so that a checkpoint is understood without fairseq. ``options`` are any object that has a
variant's options as attributes; the flags and their defaults are in fairseq_localattn/variants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..errors import UsageError
from ..mechanisms.gaussian import parse_width
from ..mechanisms.local_convolution import LARGEST_KERNEL
from ..mechanisms.mixed import parse_head_mix
from .build import CONVOLUTION, FFN
from .parse import MOST_SUBLAYERS, Attention, Group, Mechanism, Stack, Stretch, Sublayer
from .placement import ranges_of
from .words import word

Sublayers = tuple[Sublayer, ...]
PLAIN = "san"
#: Sublayers of an order of MAN, beside ``ffn``.
ATTENTIONS = ("dman", "sman", "san")
DEFAULT_ORDER = "dman,san,ffn"
#: Heads of MG-SA by its partition.
DEFAULT_HEADS = {"ngram": "word,2,3,4", "syntactic": "word,1,2,3"}


def one(name: str, **options: Any) -> Sublayers:
    """Return a layer whose one attention has the mechanism ``name`` in all heads, followed by ``ffn``."""
    return (Sublayer(Attention((Group((word(name, **options),)),))),)


def mma(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with MMA. Raises ValueError for an invalid mix of heads."""
    mix = options.mma_heads if site == "encoder" else options.mma_decoder_heads
    kinds = parse_head_mix(mix, heads)
    if site == "decoder" and "forward" in kinds:
        raise ValueError(f"a forward head in {mix!r} would see nothing but its own position in a causal decoder")
    counted = ((kind, len(list(run))) for kind, run in groupby(kinds))
    window = {"local": {"window": options.mma_window}}
    return (Sublayer(Attention(tuple(Group((word(kind, **window.get(kind, {})),), count) for kind, count in counted))),)


def csan(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with CSAN."""
    return one("csan", window=options.csan_window, head_span=options.csan_heads)


def man(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer of MAN in their order."""
    activation = str(options.man_head_activation)
    own: dict[str, dict[str, Any]] = {
        "dman": {"max_distance": options.man_max_distance},
        "sman": {"boundary": parse_static_width(options.man_static_width)},
        "san": {},
    }
    found = {kind: one(kind, **given, activation=activation) for kind, given in own.items()} | {"ffn": (FFN,)}
    order = parse_order(getattr(options, f"man_{site}_order", DEFAULT_ORDER), "the order")
    return tuple(each for kind in order for each in found[kind])


def plain_man(options: Any) -> Sublayers:
    """Return ordinary attention, whose heads have the activation of MAN as well."""
    return one(PLAIN, activation=str(options.man_head_activation))


def parse_order(text: str, flag: str) -> tuple[str, ...]:
    """Return the kinds of the sublayers from text such as ``dman,san,ffn``.

    Raises UsageError, naming ``flag``, for an unknown kind and for an order without self-attention or without ffn.
    """
    order = tuple(part.strip().lower() for part in text.split(","))
    for kind in order:
        if kind not in (*ATTENTIONS, "ffn"):
            raise UsageError(f"{flag} {text}: unknown sublayer {kind!r}; choose from {', '.join(ATTENTIONS)}, ffn")
    if not set(order) & set(ATTENTIONS):
        raise UsageError(f"{flag} {text}: no word would see another; the order needs san, dman or sman")
    if "ffn" not in order:
        raise UsageError(f"{flag} {text}: the order needs ffn, the feed-forward network, at least once")
    if len(order) > MOST_SUBLAYERS:
        raise UsageError(f"{flag}: {len(order):,} sublayers: a layer has {MOST_SUBLAYERS} or less")
    return order


def parse_static_width(text: str) -> int | None:
    """Return b of Eq. 11, or None for ``sqrt``, which is √L/2 for a sentence of length L.

    Raises UsageError for anything but ``sqrt`` and whole numbers from 0.
    """
    text = text.strip().lower()
    if text == "sqrt":
        return None
    if not text.isdecimal():
        raise UsageError(f"--man-static-width {text}: give a whole number from 0, or sqrt for √L/2 by sentence length")
    return int(text)


def window_of(options: Any, site: str) -> str:
    """Return the kind of DiffWin's window at a site: ``none``, ``mw`` or ``aw``."""
    return str(getattr(options, f"diffwin_{site}"))


def is_segmented(options: Any, site: str) -> bool:
    """Return whether DiffWin's windows of a site end at segments."""
    return str(getattr(options, f"diffwin_{site}_form")) == "segment"


def diffwin(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with differentiable windows."""
    segments = {"segment_size": options.diffwin_segment_size} if is_segmented(options, site) else {}
    if window_of(options, site) == "mw":
        return one("mw", renormalise=options.diffwin_renormalise, **segments)
    return one("aw", **segments)


def mgsa(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with phrases."""
    return one(
        "ngram" if str(options.mgsa_partition) == "ngram" else "tree",
        heads=options.mgsa_heads or DEFAULT_HEADS[str(options.mgsa_partition)],
        composition=str(options.mgsa_composition),
        interaction=str(options.mgsa_interaction),
        chunk=options.mgsa_chunk,
    )


def blocksan(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with blocks."""
    return one("block", block_length=options.blocksan_length)


def relpos(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with relative positions."""
    own, values = str(options.relpos_heads) == "own", not options.relpos_no_values
    return one("shaw", max_distance=options.relpos_distance, own_tables=own, values=values)


def localness(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with Gaussians. Raises ValueError for a centre that the site does not have."""
    if site == "cross" and str(options.localness_center) == "self":
        raise ValueError("--localness-center self: the query's own position means nothing in the other sentence")
    return one(
        "gauss",
        center=str(options.localness_center),
        width=parse_width(options.localness_width),
        local_heads=options.localness_heads,
        cut=options.localness_cut,
        product=options.localness_product,
        source=str(options.localness_source),
        hidden=str(options.localness_hidden),
    )


def qanet(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer: convolutions, attention, and ffn. Raises UsageError for invalid options."""
    if not 1 <= options.qanet_convs < MOST_SUBLAYERS:
        raise UsageError(
            f"--qanet-convs {options.qanet_convs}: give 1 or more, and {MOST_SUBLAYERS - 1} or less; none is "
            "--qanet-encoder-layers none"
        )
    if not 1 <= options.qanet_kernel <= LARGEST_KERNEL or options.qanet_kernel % 2 == 0:
        raise UsageError(
            f"--qanet-kernel {options.qanet_kernel}: give an odd number of positions, {LARGEST_KERNEL:,} or less"
        )
    given = {"kernel": options.qanet_kernel, "form": str(options.qanet_form)}
    convolution = Mechanism("conv", {name: each for name, each in given.items() if each != CONVOLUTION[name].default})
    return (Sublayer(convolution),) * options.qanet_convs + one(PLAIN)


def rope(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with rotary positions."""
    return one("rope", base=options.rope_base)


def alibi(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with linear biases."""
    return one("alibi")


def t5bias(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with T5's bias."""
    return one("t5", buckets=options.t5bias_buckets, max_distance=options.t5bias_distance)


def sinks(options: Any, site: str, heads: int) -> Sublayers:
    """Return the sublayers of a layer with sliding windows and sinks."""
    return one("sinks", window=options.sinks_window, sinks=options.sinks_count)


def plain(options: Any) -> Sublayers:
    """Return ordinary attention."""
    return one(PLAIN)


@dataclass(frozen=True)
class Preset:
    """How the options of a variant become layers.

    Args:
        sublayers: (options, site, number of heads) → sublayers of the layers with the variant; raises ValueError for
            invalid options.
        plain: options → sublayers of the other layers.
    """

    sublayers: Callable[[Any, str, int], Sublayers]
    plain: Callable[[Any], Sublayers] = plain


#: The prefix of a variant's options → its preset.
PRESETS: dict[str, Preset] = {
    **{each.__name__: Preset(each) for each in (mma, csan, diffwin, mgsa, blocksan, relpos, localness, qanet)},
    **{each.__name__: Preset(each) for each in (rope, alibi, t5bias, sinks)},
    "man": Preset(man, plain_man),
}


def stack_of(own: Iterable[int], layers: Iterable[int], *, sublayers: Sublayers, plain: Sublayers) -> Stack | None:
    """Return the layers of a site: those in ``own`` have ``sublayers``, the others of ``layers`` have ``plain``.

    Numbers are 0-based. Returns None if all layers have ordinary attention.
    """
    own, layers = set(own), set(layers)
    parts = [(own, sublayers), (layers - own, () if plain == one(PLAIN) else plain)]
    stretches = [Stretch(each, None if at == layers else ranges_of(at)) for at, each in parts if at and each]
    return Stack(tuple(stretches)) if stretches else None
