"""Models trained with ``--…-layers-to-keep``, and whole ones read with it: generated with, resumed, averaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.runs import averaging
from support.cli import call, class_flags, fairseq, lm_flags, make_classes, make_text, train_flags

TRANSLATION = {"encoder_layers": 3, "decoder_layers": 3}
BOTH = {"encoder_layers_to_keep": "0,2", "decoder_layers_to_keep": "1"}
CASES = [
    ("transformer_csan_tiny", {**TRANSLATION, **BOTH}),
    ("transformer_lm_diffwin_tiny", {"decoder_layers_to_keep": "0,2"}),
    ("transformer_diffwin_classifier_tiny", {"encoder_layers": 3, "encoder_layers_to_keep": "0,2"}),
]


@pytest.mark.parametrize(("arch", "options"), CASES)
def test_trained_pruned(arch: str, options: dict[str, object], data: Path, tmp_path: Path) -> None:
    """Begun, resumed and averaged, it is used as any other."""
    words: list[object] = ["-s", "xx", "-t", "yy", "--max-len-b", 8, "--cpu"]
    command, flags = "generate", train_flags
    if "_lm_" in arch:
        data, command, flags = make_text(data, tmp_path / "bin"), "eval-lm", lm_flags
        words = ["--sample-break-mode", "eos", "--max-tokens", 500, "--cpu"]
    elif "classifier" in arch:
        data, command, flags = make_classes(data, tmp_path), "validate", class_flags
        task = "--task sentence_prediction --criterion sentence_prediction --num-classes 2"
        words = [*task.split(), "--batch-size", 40, "--cpu"]
    files = [tmp_path / "run" / f"checkpoint_{name}.pt" for name in ("last", "best")]
    for updates in (2, 3):
        fairseq("train", *flags(data, arch, tmp_path / "run", updates, save_interval_updates=1, **options))
        fairseq(command, data, *words, "--path", files[0])
    call(averaging.main, *files, "--output", tmp_path / "averaged.pt")
    fairseq(command, data, *words, "--path", tmp_path / "averaged.pt")


def test_a_whole_model_is_read_pruned(data: Path, tmp_path: Path) -> None:
    """The stack without the option stays whole."""
    fairseq("train", *train_flags(data, "transformer_mma_tiny", tmp_path, 1, **TRANSLATION))
    words = [data, "-s", "xx", "-t", "yy", "--max-len-b", 8, "--cpu", "--path", tmp_path / "checkpoint_last.pt"]
    for overrides in ({"encoder_layers_to_keep": "0,2"}, BOTH):
        fairseq("generate", *words, "--model-overrides", overrides)
