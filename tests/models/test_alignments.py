"""The weights of the attention to the encoder, which fairseq's loss over alignments reads in training."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY

from support.models import batch, dictionary, parse


@pytest.mark.parametrize("holder", ["cfg", "args"])  # of a task's options; older tasks have cfg = None
@pytest.mark.parametrize("aligned", [False, True])
def test_weights_in_training_where_the_data_have_alignments(aligned: bool, holder: str) -> None:
    """Without alignments there are none in training, unless a layer is named; in evaluation as in fairseq."""
    words = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary())
    task = SimpleNamespace(**vars(words), cfg=None)
    setattr(task, holder, SimpleNamespace(load_alignments=aligned))
    model = ARCH_MODEL_REGISTRY["transformer_mma_tiny"].build_model(parse("transformer_mma_tiny"), task)
    net_input = batch([5, 3], [4, 6])["net_input"]
    (weights,) = model.train()(**net_input)[1]["attn"]
    assert (weights is not None) == aligned
    (weights,) = model(**net_input, alignment_layer=0)[1]["attn"]
    assert weights.shape == (2, 6, 5)
    (weights,) = model.eval()(**net_input)[1]["attn"]
    assert weights.shape == (2, 6, 5)
