"""Every preset against the model built from its described text, and the command that prints it."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_localattn.__main__ import main
from fairseq_localattn.analysis.describe import describe, hybrid_flags, hybrid_of, parse, texts_of
from fairseq_localattn.errors import UsageError
from fairseq_localattn.models.architectures import baseline_of
from support.models import EVERY, batch_for, build, with_phrases

PRESETS = {name: given for name, given in EVERY.items() if "hybrid" not in given[0]}
BEYOND = {"mma-no-positions", "mgsa-tags", "mgsa-max-lstm", "mgsa-checkpointed"}  # more than attention


@torch.no_grad()
def output(model: Any) -> torch.Tensor:
    """Return what a model makes of a padded batch."""
    sample = batch_for(model, [9, 4, 12, 1], [7, 11, 3, 5])["net_input"]
    return model(**with_phrases(model, sample))[0]


def described(arch: str, flags: list[str]) -> list[str]:
    args, _ = parse(arch, flags)
    return hybrid_flags(arch, args, texts_of(arch, args))


@pytest.mark.parametrize("name", sorted(set(PRESETS) - BEYOND))
def test_the_described_model_is_the_preset(name: str) -> None:
    """State dicts have the same keys in order and shapes; with the same weights the outputs are the same."""
    arch, flags = PRESETS[name]
    preset = build(arch, flags).eval()
    _, hybrid, *more = described(arch, flags)
    assert baseline_of(hybrid) == baseline_of(arch)
    model = build(hybrid, more, seed=2).eval()
    state = preset.state_dict()
    assert {key: value.shape for key, value in model.state_dict().items()} == {k: v.shape for k, v in state.items()}
    model.load_state_dict(state)
    torch.testing.assert_close(output(model), output(preset), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(BEYOND))
def test_what_is_more_than_attention_is_said(name: str) -> None:
    arch, flags = PRESETS[name]
    with pytest.raises(UsageError, match="changes more than the attention"):
        described(arch, flags)
    assert describe(arch, flags)[-1].startswith("no hybrid model is the same: --m")


@pytest.mark.parametrize("arch", ["transformer_man_wmt_en_de_big", "transformer_iwslt_de_en"])
def test_large_and_plain_sizes_have_the_same_parameters(arch: str) -> None:
    """On the device without memory."""
    _, hybrid, *more = described(arch, [])
    with torch.device("meta"):
        ours, theirs = (build(*each).state_dict() for each in ((hybrid, more), (arch, [])))
    assert {key: value.shape for key, value in ours.items()} == {key: value.shape for key, value in theirs.items()}


def test_command_prints_texts_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    main(["describe", "--arch", "transformer_man_small", "--man-decoder-layers", "2", "--dropout", "0.25"])
    *texts, empty, flags = capsys.readouterr().out.splitlines()
    assert texts == ["encoder  all: dman > san > ffn", "decoder  2: dman > san > ffn", "cross    all: san"]
    assert not empty and shlex.split(flags) == [
        *("--arch", "transformer_hybrid_small"),
        *("--localattn-encoder", "all: dman > san > ffn", "--localattn-decoder", "2: dman > san > ffn"),
        *("--dropout", "0.25", "--encoder-ffn-embed-dim", "256", "--encoder-normalize-before"),
        *("--decoder-ffn-embed-dim", "256", "--decoder-normalize-before"),
    ]


def test_flags_are_listed_with_the_values_of_the_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    main(["describe", "--arch", "transformer_csan_tiny", "--flags", "--encoder-layers", "5"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "flags of transformer_csan_tiny, with its values:"
    assert lines[:2] == ["--csan-window 11", "    positions a query sees (the paper's M + 1); odd"]
    assert "--localattn-loss auto" in lines
    rest = " ".join(lines[lines.index("of fairseq's model:") :])
    assert all(f"--{each}" in rest for each in ("encoder-layers 5,", "share-all-embeddings off"))


def saved(path: Path, arch: str, flags: list[str], /, **changes: Any) -> Path:
    """Write a checkpoint with the options of a model, as fairseq-train does, and without its weights.

    ``changes`` are other values of options; None takes one out, as if an older version had written the file.
    """
    args, _ = parse(arch, flags)
    options = {name: value for name, value in vars(args).items() if name not in changes}
    options |= {name: value for name, value in changes.items() if value is not None}
    weights = {f"encoder.{n}": torch.zeros(512, 2) for n in range(8)}  # no size in the options may be beyond them
    more = {"extra_state": {}, "optimizer_history": [{"best_loss": 1.0}]}
    torch.save({"cfg": {"model": Namespace(**options)}, "model": weights, **more}, path)
    return path


def test_a_checkpoint_prints_what_its_flags_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that an older version did not write has its default."""
    for arch, flags, changes in (
        ("transformer_man_small", ["--man-decoder-layers", "2", "--dropout", "0.25"], {}),
        ("transformer_hybrid_tiny", ["--localattn-encoder", "1: 2*csan(window=3, head_span=1) + 2*global"], {}),
        ("transformer_lm_hybrid_tiny", ["--localattn-decoder", "local(window=2) & alibi"], {}),
        ("transformer_localattn_small", ["--dropout", "0.25"], {}),
        ("transformer_csan_tiny", [], {"csan_window": None, "localattn_loss": None}),
    ):
        main(["describe", "--path", str(saved(tmp_path / "a.pt", arch, flags, **changes))])
        assert capsys.readouterr().out.splitlines() == describe(arch, flags)


def test_mistakes_with_a_checkpoint_end_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    for arguments, changes, message in (
        (["--path", "nosuch.pt"], {}, "--path nosuch.pt: no such file"),
        (["--path", str(tmp_path)], {}, f"--path {tmp_path}: it is no file; give a checkpoint of fairseq-train"),
        (["--path", str(path), "--dropout", "1"], {}, "unrecognized arguments: --dropout 1: --path has the options of"),
        (["--path", str(path)], {"arch": "lightconv"}, f"--path {path}: its architecture 'lightconv' is none of"),
        (["--path", str(path)], {"csan_encoder_layers": [1]}, f"{path} describes no model: "),
    ):
        saved(path, "transformer_csan_tiny", [], **changes)
        with pytest.raises(UsageError) as caught:
            main(["describe", *arguments])
        assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_size_without_a_hybrid_is_written_in_flags() -> None:
    assert hybrid_of("transformer_csan_small_8_heads") == "transformer_hybrid"
    assert " --encoder-layers 3 " in describe("transformer_csan_small_8_heads", [])[-1]
