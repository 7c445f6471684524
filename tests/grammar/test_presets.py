"""The papers' models as stacks of the grammar."""

from __future__ import annotations

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig

from fairseq_localattn.grammar import layers
from fairseq_localattn.grammar.parse import parse_stack
from support.models import TINY, parse


@pytest.mark.parametrize("arch", TINY)
def test_a_preset_is_no_text_that_is_parsed_again(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says in text is for people; read, it is the same."""
    args = parse(arch)
    hybrid = hasattr(args, "localattn_encoder")
    monkeypatch.setattr(layers, "parse_stack", parse_stack if hybrid else pytest.fail)
    builder = ARCH_MODEL_REGISTRY[arch].attention_builder(TransformerConfig.from_namespace(args))
    texts = builder.texts()
    assert hybrid or texts
    assert {site: str(parse_stack(text)) for site, text in texts.items()} == texts
