"""Options that no model can have, of every variant: one clear line while fairseq parses the command line."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.errors import UsageError
from support.models import build, parse

ORDERS = "--man-encoder-order {0} --man-decoder-order {0}"
MIXED = "--cross-self-attention --no-cross-attention"
# Of each architecture `transformer_…_tiny`: flags, part of the message.
MISTAKES = {
    "csan": [
        ("--csan-window 10", "window must be odd and positive"),
        ("--csan-window 9223372036854775809", "--csan-window 9223372036854775809"),
        ("--csan-cross-layers all", "--csan-cross-layers: a window around"),
        ("--csan-encoder-layers none --csan-window 21", "21 changes nothing: no layer has it, see --csan-encoder"),
        (f"--csan-decoder-layers all {MIXED}", "mixes source and target positions"),
        ("--quant-noise-pq 1", "--quant-noise-pq 1.0: give a rate from 0 to less than 1"),
        ("--quant-noise-pq 0.1 --quant-noise-pq-block-size 7", "--quant-noise-pq-block-size 7"),
        ("--encoder-attention-heads 0", "--encoder-attention-heads 0: give 1 or more"),
        ("--encoder-embed-dim -64", "--encoder-embed-dim -64: give 1 or more"),
        ("--max-source-positions 0", "--max-source-positions 0: give 1 or more"),
        ("--decoder-layers -1", "--decoder-layers -1: give 0 or more"),
        ("--localattn-graphs -1", "--localattn-graphs -1: give 0 or more"),
        ("--dropout nan", "--dropout nan: give a rate from 0 to less than 1"),
        ("--attention-dropout 1.5", "--attention-dropout 1.5: give a rate"),
    ],
    "mma": [
        ("--mma-heads global:2,local:1", "3 heads, the model has 4"),
        ("--mma-cross-layers 1", "--mma-cross-layers: local, forward and backward compare"),
        ("--mma-decoder-heads x", "--mma-decoder-heads x changes nothing: no layer has it, see --mma-decoder-layers"),
        ("--mma-encoder-layers none --mma-heads x", "--mma-heads x changes nothing: no layer has it"),
        ("--mma-heads global --mma-window 7", "--mma-window 7 changes nothing: no layer has local heads"),
        ("--mma-encoder-layers 0", "--mma-encoder-layers 0: give all, none, or layers from 1"),
        ("--mma-decoder-layers all --mma-decoder-heads forward:1,global:3", "nothing but its own position"),
    ],
    "man": [
        ("--man-encoder-order dman,sna,ffn", "--man-encoder-order dman,sna,ffn: unknown sublayer 'sna'; choose"),
        ("--man-decoder-order dman,,ffn", "unknown sublayer ''"),
        ("--man-decoder-order dman,san", "the order needs ffn"),
        ("--man-encoder-order ffn,ffn", "no word would see another; the order needs san, dman or sman"),
        ("--man-static-width -1", "--man-static-width -1: give a whole number from 0, or sqrt"),
        ("--man-max-distance -3", "--man-max-distance -3: give a number from 0 to 1,000,000"),
        ("--man-max-distance 1000001", "--man-max-distance 1000001: give a number from 0"),
        ("--man-static-width sqrt", "--man-static-width sqrt changes nothing: no order has sman"),
        (f"{ORDERS.format('san,ffn')} --man-max-distance 9", "9 changes nothing: no order has dman"),
        ("--man-decoder-layers none --man-decoder-order sman,san,ffn", "nothing: no layer has it, see --man-decoder"),
        ("--man-cross-layers 1", "--man-cross-layers: the mask compares the positions"),
        ("--man-post-norm --decoder-normalize-before", "--man-post-norm and --decoder-normalize-before: choose"),
        (MIXED, "mixes source and target positions"),
    ],
    "diffwin": [
        ("--diffwin-segment-size 0", "--diffwin-segment-size 0: give 1 or more tokens"),
        ("--diffwin-segment-size 99999999999", "31 bits"),
        ("--diffwin-decoder-form segment", "--diffwin-decoder-form segment: a decoder cannot point to a segment"),
        ("--diffwin-decoder aw --diffwin-renormalise", "--diffwin-renormalise changes nothing: no layer has mw"),
        ("--diffwin-cross none --diffwin-segment-size 3", "--diffwin-segment-size 3 changes nothing: no layer"),
        ("--diffwin-encoder mw --diffwin-encoder-layers none", "--diffwin-encoder mw changes nothing: no layer has it"),
        ("--diffwin-encoder none --diffwin-encoder-form segment", "segment changes nothing: --diffwin-encoder is none"),
        ("--diffwin-encoder none --diffwin-encoder-layers 2", "-layers 2 changes nothing: --diffwin-encoder is none"),
        ("--diffwin-encoder none --diffwin-encoder-layers 1-3", "1-3 changes nothing: --diffwin-encoder is none"),
        ("--no-cross-attention", "--diffwin-cross changes nothing: --no-cross-attention takes that attention out"),
        ("--encoder-attention-heads 5", "5 attention heads do not divide an embedding of 64 channels"),
        ("--diffwin-encoder max", "--diffwin-encoder max: there is no such value; choose from "),
    ],
    "lm_relpos": [("--relpos-decoder-layers none --relpos-distance 18", "--relpos-distance 18 changes nothing")],
    "lm_diffwin": [
        ("--diffwin-decoder-form segment", "a decoder cannot point to a segment"),
        ("--activation-dropout -0.1", "--activation-dropout -0.1: give a rate"),
    ],
    "mgsa": [
        ("--mgsa-heads word,1,2", "encoder layer 1: the 3 granularities of 'word,1,2' do not divide 4 heads"),
        ("--mgsa-heads word,x", "encoder layer 1: unknown granularity 'x'"),
        ("--mgsa-chunk 5", "master gates of chunks of 5 channels do not divide a state of 16 channels"),
        ("--mgsa-chunk 5 --mgsa-interaction lstm", "--mgsa-chunk 5 changes nothing: no layer"),
        ("--mgsa-chunk 4 --mgsa-encoder-layers none", "--mgsa-chunk 4 changes nothing: no layer"),
        ("--mgsa-tags --mgsa-encoder-layers none", "--mgsa-tags changes nothing: no layer has it"),
        ("--task translation", "--mgsa-partition syntactic takes phrases from trees: give --task"),
    ],
    "mgsa_ngram": [
        ("--mgsa-heads word:9,2:1", "have 10 heads, the model has 4"),
        ("--mgsa-tags", "--mgsa-tags: n-grams have no tags"),
        ("--mgsa-chunk 5", "--mgsa-chunk 5 changes nothing: no layer has --mgsa-interaction onlstm"),
    ],
    "localness": [("--localness-width wide", "a window's width of 'wide': give head, keys, query, or a number")],
    "neighbor": [
        (
            "--localness-cross-layers all",
            "cross layer 1: --localness-center self: the query's own position means nothing",
        ),
        ("--localness-source input", "--localness-source input changes nothing: neither centre nor width is predicted"),
        ("--localness-encoder-layers none --localness-width query", "query changes nothing: no layer has it"),
        ("--localness-hidden linear", "--localness-hidden linear changes nothing: neither centre nor width"),
    ],
    "blocksan": [
        ("--blocksan-decoder-layers all", "--blocksan-decoder-layers: the summary of an unfinished block"),
        ("--blocksan-cross-layers 1", "--blocksan-cross-layers: queries and keys are words of one sentence"),
    ],
    "qanet": [
        ("--qanet-kernel 4", "--qanet-kernel 4: give an odd number of positions"),
        ("--qanet-kernel 10001", "--qanet-kernel 10001: give an odd number of positions, 9,999 or less"),
        ("--qanet-convs 0", "--qanet-convs 0: give 1 or more"),
        ("--qanet-convs 100", "--qanet-convs 100: give 1 or more, and 99 or less"),
        ("--qanet-cross-layers 1", "--qanet-cross-layers: a convolution is over the positions of one sentence"),
    ],
    "rope": [
        ("--rope-encoder-layers none", "no positions; take transformer_hybrid with these sizes --localattn-decoder 'a"),
        ("--rope-encoder-layers 1 --encoder-layers-to-keep 1", "--rope-encoder-layers: the encoder would have no pos"),
    ],
    "shaw": [
        ("--relpos-decoder-layers none", "no positions; take transformer_hybrid with these sizes --localattn-enc")
    ],
}
ROWS = [(arch, flags.split(), said) for arch, rows in MISTAKES.items() for flags, said in rows]
DISTANCE, PAIRS = "a distance between a source and a target position", ("relpos", "rope", "alibi", "t5bias", "sinks")
ROWS += [(name, [f"--{name}-cross-layers", "1"], f"--{name}-cross-layers: {DISTANCE}") for name in PAIRS]
TEXTS = ("all: san > san > ffn", "2: conv > san > ffn", "local(window=2)")
ALONE, NO_CROSS = "--no-cross-attention", "-cross{} changes nothing: --no-cross-attention takes that attention out"
ROWS += [("localness", [ALONE, "--localness-cross-layers", "all"], NO_CROSS.format("-layers"))]
ROWS += [("hybrid", [ALONE, "--localattn-cross", "aw"], NO_CROSS.format(""))]
ROWS += [
    ("hybrid", ["--localattn-decoder", text, *MIXED.split()], "mixes source and target positions") for text in TEXTS
]
if not torch.cuda.is_available():
    ROWS.append(("csan", ["--quant-noise-scalar", "0.1"], "--quant-noise-scalar: fairseq quantizes on a GPU"))


@pytest.mark.parametrize(("arch", "flags", "message"), ROWS)
def test_mistakes_are_one_clear_line(arch: str, flags: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(f"transformer_{arch}_tiny", flags)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert isinstance(error.value, SystemExit) and isinstance(error.value, ValueError)


def test_what_has_no_effect_is_not_checked() -> None:
    """The default of three layers at a site without windows, the mix of heads of no layer, an architecture's values."""
    none = "--diffwin-decoder none --diffwin-cross none --decoder-layers 2".split()
    build("transformer_diffwin", [*none, "--encoder-embed-dim", "64"], decoder_embed_dim=64)
    build("transformer_mgsa_tiny", ["--mgsa-encoder-layers", "none", "--encoder-attention-heads", "2"])
    for layers in ("none", "NONE"):
        parse("transformer_diffwin_tiny", ["--diffwin-encoder", "none", "--diffwin-encoder-layers", layers])
    parse("transformer_neighbor_tiny", ["--localness-encoder-layers", "none"])
    parse("transformer_man_tiny", ["--man-encoder-layers", "none", "--man-head-activation", "relu"])
    parse("transformer_hybrid_tiny", ["--no-cross-attention", "--localattn-cross", "san"])
    parse("transformer_relpos_tiny", ["--relpos-encoder-layers", "none"])


@pytest.mark.parametrize("flag", ["--scale-attn", "--scale-heads", "--scale-fc", "--scale-resids"])
def test_scales_need_fairseqs_own_order(flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag}: .* drop it, or the order dman > san > ffn"):
        build("transformer_lm_hybrid_tiny", ["--localattn-decoder", "2: dman > san > ffn", flag])
