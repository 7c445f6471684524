"""Sets of options, drawn at random: valid values, those at a border, and absurd ones."""

from __future__ import annotations

import typing
from dataclasses import Field, fields
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY
from hypothesis import strategies as st

from fairseq_localattn.options import option_names

NUMBERS = [*range(-1, 10), 16, 64, 10**9, 2**31 - 1, 2**31, 2**70, -(2**63)]
FRACTIONS = [0.0, -0.0, 0.1, 0.5, 1.0, 2.0, 1e4, -1.0, 1e-300, 1e300, "nan", "inf", "-inf"]
LAYERS = [
    *("all", "none", "1", "2", "1-2", "1,2", "1-1,1-2", " 1 - 2 ", "ALL", "2-1", "0", "1-3", "-1", "1-1000000000"),
    *("999999999999999999999", "1-", "1,,2", "", "all,1", "1.5", "1e9", "nan", "١", "1\n", "1\0", "${oc.env:HOME}"),
]
TEXTS = [
    # Kinds of heads, words and levels.
    *"global local global,local global:1,local:3 global:0,local:4 local:-1 local,, local:1.5 global:4:4".split(),
    *"forward,backward word word,2,3,4 word,2 2,3 word,1,1,1 word,1,2:3 word,0,0,0 word,1000000000,2,3".split(),
    # Orders of sublayers.
    *"dman,san,ffn san,ffn ffn ffn,san sman,san,ffn dman,dman,dman,ffn cross,ffn conv,san,ffn".split(),
    ",".join(["san"] * 10_000),
    # Widths.
    *"head keys query sqrt 0 1 5 2.5 -1 nan inf 1e400 1e-400 1000000000 ٣ ²".split(),
    *("", " ", ":", ",", "\0", "\ud83d", "ein Wört", "${oc.env:HOME}", "__import__('os')", "x" * 10_000),
]
#: Options of fairseq that change what a variant is built of; those of a stack first.
STACKS: dict[str, list[Any]] = {
    "layers": [0, 1, 3, -1, 10**9, 2**70],
    "attention-heads": [0, 1, 2, 3, 8, 64, -4, 10**9],
    "embed-dim": [0, 1, 4, 6, 128, -64, 10**9],
    "layers-to-keep": ["0", "1", "0,1", "1,1", "5", "-1", "x", ""],
    "normalize-before": [True],
}
FAIRSEQ: dict[str, list[Any]] = {
    **{f"{stack}-{name}": drawn for stack in ("encoder", "decoder") for name, drawn in STACKS.items()},
    **{f"max-{side}-positions": [0, 1, 20, 2000, -1, 10**12] for side in ("source", "target")},
    **{name: [0.0, 0.5, 0.999, 1.0, 1.5, -0.1, "nan", "inf"] for name in ("dropout", "attention-dropout")},
    "encoder-ffn-embed-dim": [0, 1, 7, -1, 10**12],
    "encoder-layerdrop": [0.0, 0.5, 1.0, 1.5, -0.1, "nan"],
    "activation-fn": ["relu", "gelu", "linear", "os.system", ""],
    "encoder-learned-pos": [True],
    "no-token-positional-embeddings": [True],
    "layernorm-embedding": [True],
    "cross-self-attention": [True],
    "no-cross-attention": [True],
    "quant-noise-pq": [0.0, 0.1, "nan", -1.0],
    "localattn-attention": ["auto", "products", "sdpa", "flex", "triton", "none"],
}


def values(option: Field[Any]) -> list[Any]:
    """Return the values to draw from for an option of a variant."""
    kind = typing.get_type_hints(option)["type"] if isinstance(option.type, str) else option.type
    if option.name.endswith("_layers"):
        return LAYERS
    known: dict[Any, list[Any]] = {bool: [True], int: NUMBERS, float: FRACTIONS, str: TEXTS}
    return known[kind] if kind in known else [*(member.value for member in kind), "", "nothing"]  # a choice


def flags_of(arch: str) -> dict[str, list[Any]]:
    """Return the flags of an architecture's variant, and of fairseq, each with its values."""
    options = ARCH_MODEL_REGISTRY[arch].options
    by_name = {option.name: option for option in fields(options)}
    return {**FAIRSEQ, **{name.replace("_", "-"): values(by_name[name]) for name in option_names(options)}}


@st.composite
def option_sets(draw: st.DrawFn, arch: str) -> list[str]:
    """Draw up to four flags of an architecture; two thirds of them are the variant's own."""
    flags = flags_of(arch)
    own = [name for name in flags if name not in FAIRSEQ]
    names = draw(st.lists(st.sampled_from([*own, *own, *FAIRSEQ]), min_size=1, max_size=4, unique=True))
    words = []
    for name in names:
        value = draw(st.sampled_from(flags[name]))
        words.append(f"--{name}" if value is True else f"--{name}={value}")
    return words
