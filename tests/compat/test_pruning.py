"""Layers left out by ``--encoder-layers-to-keep``; tests/commands/test_training.py trains such models."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fairseq_localattn.compat.pruning import prune
from fairseq_localattn.errors import UsageError
from support.models import build

NAMES = {f"{stack}.layers.{n}.fc1.weight": f"{stack}{n}" for stack in ("encoder", "decoder") for n in range(3)}
WEIGHTS = {**NAMES, "encoder.embed_tokens.weight": "words"}


class Options:
    def __init__(self, **options: Any) -> None:
        vars(self).update(options)


@pytest.mark.parametrize("keep", ["0,2", [2, 0]])
def test_a_stack_by_itself(keep: object) -> None:
    kept = prune(WEIGHTS, Options(encoder_layers_to_keep=keep))
    assert {name: value for name, value in kept.items() if "encoder" in name} == {
        "encoder.layers.0.fc1.weight": "encoder0",
        "encoder.layers.1.fc1.weight": "encoder2",
        "encoder.embed_tokens.weight": "words",
    }
    assert sum("decoder" in name for name in kept) == 3, "a stack without the option stays whole"
    assert prune(kept, Options(encoder_layers_to_keep=keep)) == kept, "what was trained pruned stays as it is"


def test_a_layer_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"^--decoder-layers-to-keep 0,5: there is no layer 5: .* has 0 to 2$"):
        prune(WEIGHTS, Options(decoder_layers_to_keep="0,5"))


def test_the_layers_keep_their_attention() -> None:
    """Pruned twice by the same options, as by fairseq-generate: layer 3 stays without the window of layers 1 and 2."""
    windows = ["--mma-encoder-layers", "1-2", "--encoder-layers", "3"]
    whole = build("transformer_mma_tiny", windows).eval()
    pruned = build("transformer_mma_tiny", windows, encoder_layers_to_keep="0,2").eval()
    cfg = Options(arch="transformer_mma_tiny", encoder_layers_to_keep="0,2")
    pruned.load_state_dict(whole.state_dict(), model_cfg=cfg)
    assert vars(cfg)["encoder_layers_to_keep"] == "0,2"
    assert torch.equal(pruned.encoder.layers[1].fc1.weight, whole.encoder.layers[2].fc1.weight)
    assert [layer.self_attn.kind for layer in pruned.encoder.layers] == ["mma", "san"]
