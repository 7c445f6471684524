"""Every mechanism, alone and composed, against loops written from the equations: output, weights, every gradient."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.mechanisms import relative
from support.mechanisms.inputs import DIM, assert_same, make, outcome, random_case, run, take_long_ways
from support.mechanisms.references import expected

BOTH, ALL = ("encoder", "decoder"), ("encoder", "decoder", "cross")
TEXTS: dict[str, tuple[str, ...]] = {
    "san": ALL,
    "san(activation=relu)": BOTH,
    "1*global + 1*local + 1*forward + 1*backward": ("encoder",),
    "1*global + 3*local(window=3)": BOTH,
    "local(window=2)": BOTH,
    "2*forward + 2*backward": ("encoder",),
    "1*backward + 3*global": BOTH,
    "csan(window=1, head_span=3)": BOTH,
    "csan(window=3, head_span=1)": BOTH,
    "csan(window=5, head_span=3)": BOTH,
    "csan(window=25, head_span=3)": BOTH,
    "dman(max_distance=0)": BOTH,
    "dman(max_distance=3, activation=gelu)": BOTH,
    "dman(max_distance=25)": BOTH,
    "sman(boundary=0)": BOTH,
    "sman(boundary=2, activation=relu)": BOTH,
    "sman(boundary=none)": BOTH,
    "sinks(window=1, sinks=4)": BOTH,
    "sinks(window=4, sinks=1)": BOTH,
    "sinks(window=3, sinks=0)": BOTH,
    "alibi": BOTH,
    "t5(buckets=8, max_distance=5)": BOTH,
    "t5(buckets=4, max_distance=3)": BOTH,
    "t5": BOTH,
    "shaw(max_distance=0)": BOTH,
    "shaw(max_distance=2)": BOTH,
    "shaw(max_distance=16, values=false)": BOTH,
    "shaw(max_distance=3, own_tables=true)": BOTH,
    "shaw(max_distance=2, own_tables=true, values=false)": BOTH,
    "rope": BOTH,
    "rope(base=3)": BOTH,
    "mw": ALL,
    "mw(renormalise=true)": ALL,
    "mw(segment_size=2)": ("encoder", "cross"),
    "mw(segment_size=4, renormalise=true)": ("encoder", "cross"),
    "aw": ALL,
    "aw(segment_size=3)": ("encoder", "cross"),
    "gauss": ALL,
    "gauss(width=3, local_heads=2)": ALL,
    "gauss(center=self, width=head)": BOTH,
    "gauss(center=self, width=query, local_heads=2)": BOTH,
    "gauss(center=self, width=2, local_heads=1)": BOTH,
    "gauss(width=keys, local_heads=3)": ALL,
    "gauss(width=5, source=input, hidden=linear)": ALL,
    "gauss(width=keys, hidden=linear, local_heads=2)": ALL,
    "gauss(hidden=linear)": ALL,
    "gauss(width=0.3, cut=true)": ALL,
    "gauss(width=2, cut=true, product=true, local_heads=3)": ALL,
    "gauss(product=true)": ALL,
    "block(block_length=0)": ("encoder",),
    "block(block_length=1)": ("encoder",),
    "block(block_length=3)": ("encoder",),
    "block(block_length=4)": ("encoder",),
    "block(block_length=11)": ("encoder",),
    # Compositions.
    "2*csan(window=3, head_span=1) + 1*dman + 1*global": BOTH,
    "local(window=2) & alibi & shaw(max_distance=2)": BOTH,
    "local(window=2) & alibi & dman": BOTH,
    "local(window=2) & shaw(max_distance=20, values=false)": BOTH,
    "local(window=3) & sinks(window=5, sinks=1) & backward": BOTH,
    "rope & csan(window=5, head_span=1)": BOTH,
    "2*(dman & backward) + 2*(mw & alibi)": BOTH,
    "1*local(window=1) + 2*local(window=3) + 1*rope": BOTH,
    "2*san(activation=gelu) + 2*(t5 & sinks(window=2, activation=relu))": BOTH,
    "2*aw + 2*gauss(width=2)": ("cross",),
}
# Lengths of the sentences, side of the padding, and whether they take the ways of long sentences, or of a GPU. In the
# first there are as many sentences as positions, so that a wrong axis would fit, and an empty one.
BATCHES = {
    "square": ([4, 2, 0, 4], True, False),
    "alone": ([6], True, False),
    "behind": ([5, 3], False, False),
    "right": ([11, 7], False, True),
    "left": ([8, 1, 4], True, True),
}
# Lengths around those at which √L/2 reaches 1, 2 and 3.
SQUARES = {"squares": ([37, 4, 15], True, True), "squares on the right": ([36, 3, 16], False, False)}
CASES = [(text, site, *batch) for text, sites in TEXTS.items() for site in sites for batch in BATCHES.values()]
CASES += [("sman(boundary=none)", site, *batch) for site in BOTH for batch in SQUARES.values()]
CASES += [("block(block_length=0)", "encoder", *batch) for batch in SQUARES.values()]  # ⌈(2n)^⅓⌉ of cubes and others


@pytest.mark.parametrize(("text", "site", "lengths", "left", "long"), CASES)
def test_equals_equations(
    text: str, site: str, lengths: list[int], left: bool, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if long:
        take_long_ways(monkeypatch)
        monkeypatch.setattr(relative, "CHEAP_ON", ())
    sizes = {"kdim": DIM + 3, "vdim": DIM + 3} if site == "cross" else {}
    module = make(text, site, **sizes).double()
    x, padding = random_case(lengths, left)
    memory = x
    if site == "cross":  # with other channels; n counts the keys
        memory = torch.cat([x, x[..., :3]], dim=-1)
        x, _ = random_case([3] * len(lengths), left, seed=2)
    causal = site == "decoder"
    got = outcome(module, x, memory, lambda x, y: run(module, x, y, padding, causal)[0])
    wanted = outcome(module, x, memory, lambda x, y: expected(module, x, y, padding, causal)[0])
    assert_same(got, wanted)
    with torch.no_grad():
        explicit, weights = run(module, x, memory, padding, causal, need_head_weights=True)
        assert_same(
            {"output": explicit, "weights": weights},
            {"output": got["output"], "weights": expected(module, x, memory, padding, causal)[1]},
        )


@pytest.mark.parametrize("text", ["2*san + 2*alibi", "local(window=2) & alibi"])
def test_the_activation_of_the_whole_is_applied_once(text: str) -> None:
    module, (x, padding) = make(text, activation="gelu").double(), random_case([5, 3], left=True)
    torch.testing.assert_close(run(module, x, x, padding)[0], expected(module, x, x, padding)[0])
