"""Options at random for every ``_tiny`` architecture: a model that trains and decodes, or an error in one line."""

from __future__ import annotations

import contextlib
import io
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import models as fairseq_models
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from fairseq_localattn.models.architectures import localattn_architectures
from support import models
from support.attacks.options import option_sets

TINY = [name for name in sorted(localattn_architectures()) if name.endswith("_tiny")]
SECONDS = 20
MEMORY = 2 << 30
QUICK = 5  # examples for each architecture
LONG = 400


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Bound the time and the memory of what is done here."""

    def end(*_: object) -> None:
        raise TimeoutError(f"longer than {SECONDS} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, before[1]))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def built(arch: str, flags: list[str]) -> Any:
    """Return the model that fairseq-train would build, or None where the options are refused in one line."""
    out = io.StringIO()
    kind = localattn_architectures()[arch]
    model = ARCH_MODEL_REGISTRY[arch]
    task = ["--task", getattr(model, "phrase_task", model.task)]
    if model.task == "sentence_prediction":
        task += ["--criterion", "sentence_prediction", "--num-classes", str(models.CLASSES)]
    try:
        with contextlib.redirect_stderr(out):
            parser = options.get_training_parser()
            args = options.parse_args_and_arch(parser, ["data", *task, "--arch", arch, *flags])
            OmegaConf.create(vars(args))
            torch.manual_seed(1)
            words = models.dictionary()
            task_of = SimpleNamespace(source_dictionary=words, target_dictionary=words)
            task_of.tag_dictionary, task_of.phrase_levels = models.tags(), models.LEVELS
            if model.task == "sentence_prediction":
                args.max_positions = 512
            found = fairseq_models.build_model(args, task_of)  # as the plugin has repaired it
    except SystemExit as stop:
        line = str(stop.code) if isinstance(stop.code, str) else out.getvalue().rstrip().rpartition("\n")[2]
        assert line.strip() and "\n" not in line.rstrip(), f"{kind}: {line!r}"
        return None
    if model.task == "sentence_prediction":
        found.register_classification_head(models.HEAD, num_classes=models.CLASSES)
    return found


def train_a_step(model: Any, sample: dict[str, Any], arch: str) -> None:
    """Fail unless a step of training has a finite loss and leaves finite weights."""
    model.train()
    task = ARCH_MODEL_REGISTRY[arch].task
    if task == "translation":
        loss = models.loss(model, sample)
    elif task == "language_modeling":
        tokens = sample["net_input"]["prev_output_tokens"]
        out, _ = model(tokens)
        loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), sample["target"].flatten(), ignore_index=1)
    else:
        given = sample["net_input"]
        out, _ = model(given["src_tokens"], given["src_lengths"], classification_head_name=models.HEAD)
        loss = out.logsumexp(-1).sum() - out[:, 0].sum()
    assert loss.isfinite(), f"loss {loss}"
    loss.backward()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                assert parameter.grad.isfinite().all(), f"gradient of {name}"
                parameter -= 1e-4 * parameter.grad


def decode(model: Any, sample: dict[str, Any], arch: str) -> None:
    """Fail unless the logits of word-by-word decoding are those of the full pass."""
    model.eval()
    tokens = sample["net_input"]["prev_output_tokens"]
    more: dict[str, Any] = {}
    with torch.no_grad():
        if ARCH_MODEL_REGISTRY[arch].task == "translation":
            more["encoder_out"] = models.encode(model, sample["net_input"])
        full, _ = model.decoder(tokens, **more)
        state: dict[str, Any] = {}
        for t in range(tokens.size(1)):
            step, _ = model.decoder(tokens[:, : t + 1], **more, incremental_state=state)
            torch.testing.assert_close(step[:, 0], full[:, t], rtol=1e-3, atol=1e-4)


def attempt(arch: str, flags: list[str]) -> bool:
    """Return whether the options describe a model, which then trains and decodes."""
    with bounded():
        model = built(arch, flags)
        if model is None:
            return False
        sample = models.batch([7, 3, 1], [6, 6, 6])
        train_a_step(model, sample, arch)
        if ARCH_MODEL_REGISTRY[arch].task != "sentence_prediction":
            decode(model, sample, arch)
        return True


@pytest.mark.parametrize(
    "examples", [pytest.param(QUICK, id="quick"), pytest.param(LONG, id="long", marks=pytest.mark.attack)]
)
@pytest.mark.parametrize("arch", TINY)
def test_options_at_random(arch: str, examples: int) -> None:
    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=True,
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
    ("transformer_shaw_tiny", "--relpos-distance=1000000000", False),
    ("transformer_t5bias_tiny", "--t5bias-buckets=2147483646 --t5bias-distance=2147483647", False),
    ("transformer_qanet_tiny", "--qanet-convs=2147483647", False),
    ("transformer_qanet_tiny", "--qanet-kernel=2147483647", False),
    ("transformer_hybrid_tiny", "--localattn-encoder=conv(kernel=1000001)>san", False),
    ("transformer_hybrid_tiny", f"--localattn-encoder={'san>' * 100}san", False),
    ("transformer_hybrid_tiny", f"--localattn-encoder={'san+' * 3_000}san", False),
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
