"""Options of checkpoints, pruned and shallow stacks, numbers of layers, names of sizes."""

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
from fairseq_localattn.errors import UsageError
from fairseq_localattn.grammar.placement import parse_layers
from fairseq_localattn.models.architectures import baseline_of, localattn_architectures, quick_size_of
from fairseq_localattn.options import add_flags
from fairseq_localattn.speed.runtime import ImplementationOptions
from support.models import build, dictionary, parse


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("transformer_mma_tiny", {"mma_heads": "global", "mma_window": 7, "mma_decoder_heads": "x"}),
        ("transformer_man_tiny", {"man_static_width": "sqrt"}),
        ("transformer_diffwin_tiny", {"diffwin_renormalise": True, "diffwin_decoder": "aw"}),
        ("transformer_mgsa_ngram_tiny", {"mgsa_chunk": 4}),
        ("transformer_rope_tiny", {"rope_encoder_layers": "none", "rope_decoder_layers": "none", "rope_base": 5.0}),
    ],
)
def test_a_checkpoint_may_have_options_without_effect(arch: str, options: dict[str, Any]) -> None:
    """They are an error on a command line only: a checkpoint of a version that allowed them still loads."""
    cfg = convert_namespace_to_omegaconf(parse(arch)).model
    vars(cfg).update(options)
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary())
    assert type(build_model(cfg, task)) is ARCH_MODEL_REGISTRY[arch]


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


def test_a_stack_without_layers() -> None:
    """As fairseq's: the decoder reads the embeddings of the source."""
    model = build("transformer_mma_tiny", ["--encoder-layers", "0"]).eval()
    assert model(torch.tensor([[5, 2]]), torch.tensor([2]), torch.tensor([[2, 6]]))[0].shape == (1, 2, 44)
    with pytest.raises(UsageError, match="there is no layer 1: the encoder has 0"):
        build("transformer_hybrid_tiny", ["--encoder-layers", "0", "--localattn-encoder", "1: local"])


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


def test_help_names_every_choice() -> None:
    """Pages and ``describe --flags`` show the help texts, without the choices."""
    parser = ArgumentParser()
    for options in {ImplementationOptions, *(ARCH_MODEL_REGISTRY[arch].options for arch in localattn_architectures())}:
        add_flags(parser, options)
    choices = {action.dest: (action.choices, action.help or "") for action in parser._actions if action.choices}
    assert len(choices) > 10
    assert {dest: text for dest, (names, text) in choices.items() if not all(name in text for name in names)} == {}
