"""Any text of the grammar builds, trains a step and decodes as in the full pass; any damaged one is an error's line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_localattn.errors import UsageError
from fairseq_localattn.variants.hybrid import HybridTransformerModel
from support.mechanisms.texts import damaged, stacks
from support.models import SITES, batch, build, decode_by_word, loss, parse, with_phrases

ARCH = "transformer_hybrid_tiny"
TEXTS = st.tuples(*(stacks(site) for site in SITES))
every_site = pytest.mark.parametrize("site", SITES)


def few(examples: int) -> settings:
    """Return settings of a property test whose examples are the same in each run."""
    health = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=health)


@pytest.mark.slow
@few(40)
@given(TEXTS)
def test_any_text_trains_and_decodes(texts: tuple[str, ...]) -> None:
    """Build a model, train one step, and compare its decoding with its full pass."""
    given_texts: dict[str, Any] = {f"localattn_{site}": text for site, text in zip(SITES, texts, strict=True)}
    args = parse(ARCH)
    vars(args).update(given_texts, task="translation_with_phrases")
    with torch.device("meta"):
        HybridTransformerModel.check_args(args)
    model = build(ARCH, (), **given_texts)
    sample = batch([9, 4, 13, 1], [9, 7, 3, 5])
    total = loss(model.train(), sample)
    total.backward()
    assert total.isfinite()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients)
    sample = batch([9, 4, 13, 1], [6, 6, 6, 6])
    with torch.no_grad():
        full = model.eval()(**with_phrases(model, sample["net_input"]))[0]
    torch.testing.assert_close(decode_by_word(model, sample), full, rtol=1e-4, atol=2e-5)


@every_site
@few(100)
@given(st.data())
def test_a_damaged_text_builds_or_ends_in_one_line(site: str, data: st.DataObject) -> None:
    """Without memory."""
    text = data.draw(damaged(site))
    args, own = parse(ARCH), dict[str, Any]({f"localattn_{site}": text})
    vars(args).update(own, task="translation_with_phrases")
    try:
        HybridTransformerModel.check_args(args)
        with torch.device("meta"):
            build(ARCH, (), **own)
    except UsageError as error:
        assert "\n" not in str(error) and f"--localattn-{site}: " in str(error)
