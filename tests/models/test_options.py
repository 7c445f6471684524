"""Flags, defaults and placement: models are built as asked for, and invalid options are refused in one clear line."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY, build_model

from fairseq_localattn.analysis.describe import parse as parse_any
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.errors import UsageError
from fairseq_localattn.grammar.placement import parse_layers
from fairseq_localattn.mechanisms.convolutional import ConvolutionalAttention
from fairseq_localattn.mechanisms.mixed import MixedAttention
from fairseq_localattn.models.architectures import baseline_of, localattn_architectures, quick_size_of
from fairseq_localattn.options import add_flags
from fairseq_localattn.speed.runtime import ImplementationOptions
from support.models import TINY, build, build_lm, dictionary, parse

# Architecture, flags, part of the message.
INVALID = [
    ("transformer_mma_tiny", ["--mma-heads", "global:2,local:1"], "3 heads, the model has 4"),
    ("transformer_mma_tiny", ["--mma-cross-layers", "1"], "--mma-cross-layers: local, forward and backward compare"),
    (
        "transformer_mma_tiny",
        ["--mma-decoder-heads", "x"],
        "--mma-decoder-heads x changes nothing: --mma-decoder-layers",
    ),
    (
        "transformer_mma_tiny",
        ["--mma-encoder-layers", "none", "--mma-heads", "x"],
        "--mma-heads x changes nothing: --mma-encoder-layers is none",
    ),
    (
        "transformer_mma_tiny",
        ["--mma-heads", "global", "--mma-window", "7"],
        "--mma-window 7 changes nothing: no layer has local heads",
    ),
    ("transformer_mma_tiny", ["--mma-encoder-layers", "3"], "layer 3 is asked for, and the stack has 2"),
    ("transformer_mma_tiny", ["--mma-encoder-layers", "0"], "--mma-encoder-layers 0: give all, none, or layers from 1"),
    ("transformer_mma_tiny", ["--mma-encoder-layers", "2-1"], "--mma-encoder-layers 2-1: give all, none"),
    (
        "transformer_mma_tiny",
        ["--mma-decoder-layers", "all", "--mma-decoder-heads", "forward:1,global:3"],
        "nothing but its own position in a causal decoder",
    ),
    (
        "transformer_csan_tiny",
        ["--csan-decoder-layers", "all", "--cross-self-attention", "--no-cross-attention"],
        "mixes source and target positions",
    ),
    *(
        (
            "transformer_hybrid_tiny",
            ["--localattn-decoder", text, "--cross-self-attention", "--no-cross-attention"],
            "mixes source and target positions",
        )
        for text in ("all: san > san > ffn", "2: conv > san > ffn", "local(window=2)")
    ),
    *(
        (
            "transformer_lm_hybrid_tiny",
            ["--localattn-decoder", "2: dman > san > ffn", flag],
            f"{flag}: layers apply it in fairseq's own order alone; drop it, or the order dman > san > ffn",
        )
        for flag in ("--scale-attn", "--scale-heads", "--scale-fc", "--scale-resids")
    ),
    ("transformer_csan_tiny", ["--csan-window", "10"], "window must be odd and positive"),
    ("transformer_csan_tiny", ["--csan-cross-layers", "all"], "--csan-cross-layers: a window around"),
    ("transformer_csan_tiny", ["--csan-decoder-layers", "1-9"], "layer 9 is asked for, and the stack has 2"),
    ("transformer_csan_tiny", ["--quant-noise-pq", "1"], "--quant-noise-pq 1.0: give a rate from 0 to less than 1"),
    (
        "transformer_csan_tiny",
        ["--quant-noise-pq", "0.1", "--quant-noise-pq-block-size", "7"],
        "--quant-noise-pq-block-size 7: Input features must be a multiple of block sizes",
    ),
    *(
        [("transformer_csan_tiny", ["--quant-noise-scalar", "0.1"], "--quant-noise-scalar: fairseq quantizes on a GPU")]
        if not torch.cuda.is_available()
        else []
    ),
]


@pytest.mark.parametrize(("arch", "flags", "message"), INVALID)
def test_invalid_options_are_one_clear_line(arch: str, flags: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        (build_lm if "_lm_" in arch else build)(arch, flags)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert isinstance(error.value, SystemExit) and isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("transformer_mma_tiny", {"mma_heads": "global", "mma_window": 7, "mma_decoder_heads": "x"}),
        ("transformer_man_tiny", {"man_static_width": "sqrt"}),
        ("transformer_diffwin_tiny", {"diffwin_renormalise": True, "diffwin_decoder": "aw"}),
        ("transformer_mgsa_ngram_tiny", {"mgsa_chunk": 4}),
    ],
)
def test_a_checkpoint_may_have_options_without_effect(arch: str, options: dict[str, Any]) -> None:
    """They are an error on a command line only: a checkpoint of a version that allowed them still loads."""
    cfg = convert_namespace_to_omegaconf(parse(arch)).model
    vars(cfg).update(options)
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary())
    assert type(build_model(cfg, task)) is ARCH_MODEL_REGISTRY[arch]


def kinds(stack: Any) -> list[type[LocalAttention]]:
    """Return the class of each layer's self-attention."""
    return [type(layer.self_attn) for layer in stack.layers]


def test_csan_is_in_the_lowest_three_encoder_layers() -> None:
    with torch.device("meta"):
        model = build("transformer_csan")
    assert kinds(model.encoder) == [ConvolutionalAttention] * 3 + [LocalAttention] * 3
    assert kinds(model.decoder) == [LocalAttention] * 6
    attention = model.encoder.layers[0].self_attn
    assert (attention.window, attention.head_span) == (11, 3)


def test_mma_is_in_every_encoder_layer() -> None:
    with torch.device("meta"):
        model = build("transformer_mma_iwslt_de_en")
        base = build("transformer_mma_wat17")
    assert kinds(model.encoder) == [MixedAttention] * 6 and kinds(model.decoder) == [LocalAttention] * 6
    assert model.encoder.layers[0].self_attn.head_kinds == ("global", "local", "forward", "backward")
    assert base.encoder.layers[5].self_attn.head_kinds[::2] == ("global", "local", "forward", "backward")
    assert all(type(layer.encoder_attn) is LocalAttention for layer in model.decoder.layers)


def test_placement_by_flags() -> None:
    model = build("transformer_csan_tiny", ["--csan-encoder-layers", "2", "--csan-decoder-layers", "1,2"])
    assert kinds(model.encoder) == [LocalAttention, ConvolutionalAttention]
    assert kinds(model.decoder) == [ConvolutionalAttention] * 2


def test_flags_override_the_architecture() -> None:
    args = parse("transformer_csan_1d_tiny", ["--csan-heads", "3", "--csan-window", "5", "--encoder-layers", "3"])
    assert (args.csan_heads, args.csan_window, args.encoder_layers, args.decoder_layers) == (3, 5, 3, 2)
    assert parse("transformer_csan_1d_tiny").csan_heads == 1
    assert parse("transformer_mma", ["--mma-no-encoder-positions"]).mma_no_encoder_positions is True
    assert parse("transformer_mma").mma_no_encoder_positions is False


def test_encoder_without_position_embedding() -> None:
    """Table 3: without positions the output of global heads does not depend on word order; with mixed heads it does."""
    tokens = torch.tensor([[5, 6, 7, 8, 2]])
    swapped = torch.tensor([[6, 5, 7, 8, 2]])
    seen = {}
    for mix in ("global", "global,local,forward,backward"):
        model = build("transformer_mma_tiny", ["--mma-no-encoder-positions", "--mma-heads", mix]).eval()
        assert model.encoder.embed_positions is None and model.decoder.embed_positions is not None
        first, second = (model.encoder(x)["encoder_out"][0][2:] for x in (tokens, swapped))
        seen[mix] = (first - second).abs().max().item()
    assert seen["global"] < 1e-5 < 1e-2 < seen["global,local,forward,backward"]


@pytest.mark.parametrize("arch", TINY)
def test_pruned_stacks_are_built(arch: str) -> None:
    """Layer 1 of the encoder and layer 2 of the decoder are kept, for any placement."""
    kept = build(arch, encoder_layers_to_keep="0", decoder_layers_to_keep="1")
    whole = build(arch)
    assert len(kept.encoder.layers) == len(kept.decoder.layers) == 1
    assert set(kept.encoder.layers[0].state_dict()) == set(whole.encoder.layers[0].state_dict())
    assert set(kept.decoder.layers[0].state_dict()) == set(whole.decoder.layers[1].state_dict())


# One architecture a model, in a size of the papers: those place layers that a shallow stack does not have.
LARGE = {model: arch for arch, model in localattn_architectures().items() if not arch.endswith(("_tiny", "_small"))}


@pytest.mark.parametrize("arch", LARGE.values())
def test_presets_fit_a_shallow_stack(arch: str) -> None:
    """What the user has not written is cut to the layers that there are; what he has written is refused."""
    stacks = [stack for stack in ("encoder", "decoder") if stack in ARCH_MODEL_REGISTRY[arch].sites]
    depths = [word for stack in stacks for word in (f"--{stack}-layers", "1")]
    args, _ = parse_any(arch, depths)
    prefix = ARCH_MODEL_REGISTRY[arch].prefix
    placed = [value for name, value in vars(args).items() if re.fullmatch(rf"{prefix}_\w+_layers", name)]
    assert set(placed) <= {"1", "all", "none"}
    names = [f"--{prefix}-{stack}-layers" for stack in stacks if hasattr(args, f"{prefix}_{stack}_layers")]
    for name in names:
        with pytest.raises(UsageError, match=f"{name} is 1-2: layer 2 is asked for, and the stack has 1"):
            parse_any(arch, [*depths, name, "1-2"])


def test_parse_layers() -> None:
    assert parse_layers("all", "--x", range(3), 3) == {0, 1, 2}
    assert parse_layers("all", "--x", [0, 4]) == {0, 4}
    assert parse_layers("none", "--x", range(3), 3) == frozenset()
    assert parse_layers("1,3-4", "--x", range(6), 6) == {0, 2, 3}
    assert parse_layers("1-2,5", "--x", [0, 2, 4]) == {0, 4}  # of a pruned stack
    # Ranges of billions are compared, not expanded.
    assert parse_layers("2-999999999", "--x", [0, 4]) == {4}
    for text in ("", "1-", "a", "-1", "1;2", "3-2", "1-999999999", "1" * 5000):
        with pytest.raises(UsageError, match="--x"):
            parse_layers(text, "--x", range(6), 6)


def test_names_of_sizes() -> None:
    assert baseline_of("transformer_csan_wmt_en_de_big") == "transformer_vaswani_wmt_en_de_big"
    assert baseline_of("transformer_mma_small") == "transformer_localattn_small"
    assert quick_size_of("transformer_csan_1d") == "transformer_csan_1d_small"
    assert quick_size_of("transformer_mma_iwslt_de_en") == "transformer_mma_iwslt_de_en"
    with pytest.raises(UsageError, match="unknown architecture 'transformer_mmma'"):
        baseline_of("transformer_mmma")


@pytest.mark.parametrize(
    "arch, flags, message",
    [
        ("transformer_csan_tiny", "--encoder-attention-heads 0", "--encoder-attention-heads 0: give 1 or more"),
        ("transformer_csan_tiny", "--decoder-attention-heads -4", "--decoder-attention-heads -4: give 1 or more"),
        ("transformer_csan_tiny", "--encoder-embed-dim -64", "--encoder-embed-dim -64: give 1 or more"),
        ("transformer_csan_tiny", "--decoder-ffn-embed-dim 0", "--decoder-ffn-embed-dim 0: give 1 or more"),
        ("transformer_csan_tiny", "--max-source-positions 0", "--max-source-positions 0: give 1 or more"),
        ("transformer_csan_tiny", "--decoder-layers -1", "--decoder-layers -1: give 0 or more"),
        ("transformer_csan_tiny", "--localattn-graphs -1", "--localattn-graphs -1: give 0 or more"),
        ("transformer_csan_tiny", "--dropout nan", "--dropout nan: give a rate from 0 to less than 1"),
        ("transformer_csan_tiny", "--attention-dropout 1.5", "--attention-dropout 1.5: give a rate"),
        ("transformer_lm_diffwin_tiny", "--activation-dropout -0.1", "--activation-dropout -0.1: give a rate"),
        ("transformer_csan_tiny", "--csan-window 9223372036854775809", "--csan-window 9223372036854775809: .* 31 bits"),
        ("transformer_diffwin_tiny", "--diffwin-segment-size 99999999999", "--diffwin-segment-size .* 31 bits"),
    ],
)
def test_values_out_of_range(arch: str, flags: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(arch, flags.split())


def test_help_names_every_choice() -> None:
    """Pages and ``describe --flags`` show the help texts, without the choices."""
    parser = ArgumentParser()
    for options in {ImplementationOptions, *(ARCH_MODEL_REGISTRY[arch].options for arch in localattn_architectures())}:
        add_flags(parser, options)
    choices = {action.dest: (action.choices, action.help or "") for action in parser._actions if action.choices}
    assert len(choices) > 10
    assert {dest: text for dest, (names, text) in choices.items() if not all(name in text for name in names)} == {}
