"""Options at random for every ``_tiny`` architecture: a model that trains and decodes, or an error in one line."""

from __future__ import annotations

import contextlib
import io
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import models as fairseq_models
from fairseq.models import ARCH_MODEL_REGISTRY
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_localattn.models.architectures import localattn_architectures
from support import models
from support.attacks.options import option_sets
from support.attacks.world import bounded

TINY = [name for name in sorted(localattn_architectures()) if name.endswith("_tiny")]


def built(arch: str, flags: list[str]) -> Any:
    """Return the model that fairseq-train would build, or None where the options are refused in one line."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stderr(out):
            args = models.parse(arch, flags)
            words = models.dictionary()
            task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
            task.tag_dictionary, task.phrase_levels, args.max_positions = models.tags(), models.LEVELS, 512
            torch.manual_seed(1)
            found = fairseq_models.build_model(args, task)  # as the plugin has repaired it
    except SystemExit as stop:
        line = str(stop.code) if isinstance(stop.code, str) else out.getvalue().rstrip().rpartition("\n")[2]
        assert line.strip() and "\n" not in line.rstrip(), line
        return None
    if ARCH_MODEL_REGISTRY[arch].task == "sentence_prediction":
        found.register_classification_head(models.HEAD, num_classes=models.CLASSES)
    return found


def attempt(arch: str, flags: list[str]) -> bool:
    """Return whether the options describe a model; fail unless it trains a step, and decodes as in a full pass."""
    with bounded():
        if (model := built(arch, flags)) is None:
            return False
        sample = models.batch_for(model, [7, 3, 1, 5], [6, 6, 6, 6])
        loss = models.loss(model.train(), sample)
        assert loss.isfinite(), f"loss {loss}"
        loss.backward()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    assert parameter.grad.isfinite().all(), f"gradient of {name}"
                    parameter -= 1e-4 * parameter.grad
            if hasattr(model.eval(), "decoder"):
                full, _ = model(**models.with_phrases(model, sample["net_input"]))
                torch.testing.assert_close(models.decode_by_word(model, sample), full, rtol=1e-3, atol=1e-4)
        return True


@pytest.mark.parametrize(
    "examples", [pytest.param(5, id="quick"), pytest.param(400, id="long", marks=pytest.mark.attack)]
)
@pytest.mark.parametrize("arch", TINY)
def test_options_at_random(arch: str, examples: int) -> None:
    @settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        attempt(arch, data.draw(option_sets(arch)))

    run()


# Option sets that once failed, and what they are now: built, or refused.
FOUND: list[tuple[str, str, bool]] = [
    ("transformer_csan_tiny", "--csan-encoder-layers=1-1000000000", False),
    ("transformer_lm_diffwin_tiny", "--decoder-layers=1180591620717411303424", False),
    ("transformer_mma_tiny", "--max-source-positions=1000000000000", False),
    ("transformer_mgsa_tiny", "--encoder-embed-dim=1000000000", False),
    ("transformer_t5bias_tiny", "--t5bias-buckets=2147483646 --t5bias-distance=2147483647", False),
    ("transformer_hybrid_tiny", "--localattn-encoder=conv(kernel=1000001)>san", False),
    ("transformer_sinks_tiny", "--quant-noise-pq=nan", False),
    ("transformer_rope_tiny", "--rope-base=nan", False),
    ("transformer_csan_tiny", "--cross-self-attention --encoder-embed-dim=4", False),
    ("transformer_rope_tiny", "--encoder-layers-to-keep=x", False),
    ("transformer_rope_tiny", "--encoder-layers-to-keep=1", True),
    ("transformer_blocksan_tiny", "--blocksan-length=2147483647", True),
    ("transformer_diffwin_tiny", "--diffwin-segment-size=1000000000", True),
]


@pytest.mark.parametrize(("arch", "flags", "works"), FOUND)
def test_options_that_failed_once(arch: str, flags: str, works: bool) -> None:
    assert attempt(arch, flags.split()) is works
