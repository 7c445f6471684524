"""Texts that are valid by construction, drawn for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fairseq_localattn.grammar.build import attention
from fairseq_localattn.grammar.parse import Attention, Group, Mechanism, Sublayer
from fairseq_localattn.grammar.words import PHRASES, WORDS

HEADS, LAYERS = 4, 2
# Word → values of its options that are valid at every site where the word is.
VALUES: dict[str, dict[str, list[Any]]] = {
    "local": {"window": [1, 2, 4]},
    "csan": {"window": [1, 3, 5]},
    "dman": {"max_distance": [0, 2, 9]},
    "sman": {"boundary": [0, 2, "none"]},
    "mw": {"renormalise": ["true", "false"], "segment_size": [1]},
    "aw": {"segment_size": [1]},
    "shaw": {"max_distance": [1, 4], "own_tables": ["true", "false"], "values": ["true", "false"]},
    "gauss": {
        "width": ["query", "head", "keys", 2, 3.5],
        "cut": ["true", "false"],
        "product": ["true", "false"],
        "hidden": ["tanh", "linear"],
        "source": ["query", "input"],
    },
    "block": {"block_length": [0, 3]},
    "rope": {"base": [10, 10000.0]},
    "t5": {"buckets": [4, 8], "max_distance": [20, 40]},
    "sinks": {"window": [2, 5], "sinks": [0, 2]},
}
# Further values, at an encoder's sites alone.
ENCODER = {"mw": {"segment_size": [1, 2]}, "aw": {"segment_size": [1, 3]}}
SITES = ("encoder", "decoder", "cross")
HERE = {site: [w for w in WORDS if w not in PHRASES and not WORDS[w].reason_against(site)] for site in SITES}
# Those that compute the whole attention of their heads; only rope acts before it.
WHOLE = {name for name in HERE["encoder"] if attention(name, 8, 4).whole}
PHRASE_TEXTS = ["ngram", "ngram(composition=max, interaction=none)", 'tree(heads="word:2,1:2", composition=lstm)']


def options(word: str, site: str) -> st.SearchStrategy[dict[str, Any]]:
    """Draw some of a word's options."""
    known = {**VALUES.get(word, {}), **(ENCODER.get(word, {}) if site == "encoder" else {})}
    known["activation"] = ["none", "relu", "gelu"]
    # A group may have one head, and csan sees three by default.
    needed = {"head_span": st.just(1)} if word == "csan" else {}
    return st.fixed_dictionaries(needed, optional={name: st.sampled_from(values) for name, values in known.items()})


@st.composite
def joints(draw: st.DrawFn, site: str) -> tuple[Mechanism, ...]:
    """Draw mechanisms on the same heads."""
    words = draw(st.lists(st.sampled_from(HERE[site]), min_size=1, max_size=3, unique=True))
    if WHOLE & set(words):
        whole = next(word for word in words if word in WHOLE)
        words = [word for word in words if word in (whole, "rope")]
    if "rope" in words:  # which these do not stand beside
        words = [word for word in words if word not in ("shaw", "gauss")]
    return tuple(Mechanism(word, draw(options(word, site))) for word in words)


@st.composite
def attentions(draw: st.DrawFn, site: str) -> Attention:
    """Draw groups of heads with numbers that add up, or with equal shares."""
    counts = draw(st.sampled_from([None, (1, 3), (2, 2), (1, 1, 2), (4,)]))
    if counts is None:
        number = draw(st.sampled_from([1, 2, 4]))
        return Attention(tuple(Group(draw(joints(site))) for _ in range(number)))
    return Attention(tuple(Group(draw(joints(site)), count) for count in counts))


@st.composite
def layers(draw: st.DrawFn, site: str, phrases: str) -> str:
    """Draw the sublayers of one layer."""
    if site == "cross":
        return str(draw(attentions(site)))
    found = [str(Sublayer(draw(attentions(site)))) for _ in range(draw(st.integers(1, 2)))]
    if site == "encoder" and draw(st.integers(0, 3)) == 0:
        found[0] = phrases
    more = ["ffn", "conv(kernel=3)", "conv(kernel=5, form=full)"]
    found += draw(st.lists(st.sampled_from(more), max_size=2))
    found += ["cross"] if site == "decoder" and draw(st.booleans()) else []
    return " > ".join(draw(st.permutations(found)))


@st.composite
def stacks(draw: st.DrawFn, site: str) -> str:
    """Draw the text of a site for a model of two layers of four heads."""
    phrases = draw(st.sampled_from(PHRASE_TEXTS))  # the layers of an encoder share them
    ranges = draw(st.sampled_from([[""], ["all: "], ["1: ", "2: "], ["2: "], ["1-2: "], ["2: ", "1,1: "]]))
    return "; ".join(stretch + draw(layers(site, phrases)) for stretch in ranges)


SIGNS = list("();:>+*&,= 0129.\"'-") + ["all", "ffn", "cross", "conv", "san", "window", "ngram", "\n", "é"]


@st.composite
def damaged(draw: st.DrawFn, site: str) -> str:
    """Draw a text, and delete, insert or exchange a piece of it."""
    text = draw(stacks(site))
    at = draw(st.integers(0, len(text)))
    to = min(len(text), at + draw(st.integers(0, 4)))
    return text[:at] + draw(st.sampled_from(["", *SIGNS])) + text[to:]
