"""The options of an encoder that is trained for probing."""

from __future__ import annotations

import pytest

from fairseq_localattn.analysis.probing import models as probing_models
from fairseq_localattn.errors import UsageError


def test_fairseqs_parser_says_its_mistakes_in_one_line():
    with pytest.raises(UsageError, match="invalid"):
        probing_models.architecture_options("transformer_localattn_tiny", ["--encoder-embed-dim", "many"])
    assert probing_models.architecture_options("transformer_localattn_tiny", []).encoder_layers == 3
    given = probing_models.architecture_options("transformer_localattn_tiny", ["--encoder-layers", "2"])
    assert given.encoder_layers == 2
    for flags in (["--fp16"], ["--update-freq", "4"], ["--lr", "0.1"]):
        with pytest.raises(UsageError, match=f"{flags[0]}: no flag of the model's, so it would change nothing here"):
            probing_models.architecture_options("transformer_localattn_tiny", flags)
