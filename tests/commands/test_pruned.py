"""Models trained with ``--…-layers-to-keep``, and whole ones read with it: generated with, resumed, averaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from experiments.runs import averaging
from support.cli import Done, call, fairseq, train_flags

TRANSLATION = {"encoder_layers": 3, "decoder_layers": 3}
BOTH = {"encoder_layers_to_keep": "0,2", "decoder_layers_to_keep": "1"}
CASES = [
    ("transformer_csan_tiny", {**TRANSLATION, **BOTH}),
    ("transformer_lm_diffwin_tiny", {"decoder_layers_to_keep": "0,2"}),
    ("transformer_diffwin_classifier_tiny", {"encoder_layers": 3, "encoder_layers_to_keep": "0,2"}),
]


def prepare(data: Path, arch: str, folder: Path) -> Path:
    """Return the binarised data of an architecture's task."""
    if "classifier" not in arch and "_lm_" not in arch:
        return data
    parts = {"input0": folder / "bin" / "input0", "label": folder / "bin" / "label"}
    parts = parts if "classifier" in arch else {"input0": folder / "bin"}
    for split in ("train", "valid", "test"):
        letters = [line[0] for line in (data.parent / f"{split}.xx").read_text().splitlines()]
        (folder / f"{split}.label").write_text("".join("low\n" if letter < "e" else "high\n" for letter in letters))
        os.link(data.parent / f"{split}.xx", folder / f"{split}.input0")
    for part, place in parts.items():
        texts = [
            word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / f"{split}.{part}")
        ]
        fairseq("preprocess", "--only-source", *texts, "--destdir", place)
    return folder / "bin"


def commands(
    arch: str, data: Path, folder: Path, updates: int, **options: object
) -> tuple[list[object], tuple[str, list[object]]]:
    """Return the arguments of a training, and the command that uses its model, with its arguments but --path."""
    use: list[object]
    if "_lm_" in arch:
        words: list[object] = [data, "--task", "language_modeling", "--sample-break-mode", "eos", "--max-tokens", 500]
        command, use = "eval-lm", [data, "--sample-break-mode", "eos", "--max-tokens", 500]
    elif "classifier" in arch:
        words = [data, *"--task sentence_prediction --criterion sentence_prediction --num-classes 2".split()]
        words += ["--batch-size", 40]
        command, use = "validate", [*words]
    else:
        use = [data, "-s", "xx", "-t", "yy", "--max-len-b", 8, "--cpu"]
        return train_flags(data, arch, folder, updates, **options), ("generate", use)
    words += [
        "--arch",
        arch,
        "--optimizer",
        "adam",
        "--lr",
        0.01,
        "--max-update",
        updates,
        "--cpu",
        "--save-dir",
        folder,
    ]
    words += [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    return [*words, "--save-interval-updates", 1], (command, [*use, "--cpu"])


@pytest.mark.parametrize(("arch", "options"), CASES)
def test_trained_pruned(arch: str, options: dict[str, object], data: Path, tmp_path: Path) -> None:
    binarised, run = prepare(data, arch, tmp_path), tmp_path / "run"
    for updates in (2, 3):  # begun, and resumed
        train, (command, use) = commands(arch, binarised, run, updates, **options)
        fairseq("train", *train)
        fairseq(command, *use, "--path", run / "checkpoint_last.pt")
    files = [run / "checkpoint_last.pt", run / "checkpoint_best.pt"]
    averaged = tmp_path / "averaged.pt"
    call(averaging.main, *files, "--output", averaged)
    fairseq(command, *use, "--path", averaged)


@pytest.mark.parametrize("arch", ["transformer_localattn_tiny", "transformer_mma_tiny"])
def test_a_whole_model_is_read_pruned(arch: str, data: Path, tmp_path: Path) -> None:
    """The stack without the option stays whole; a layer that is not there is named."""
    train, (command, use) = commands(arch, data, tmp_path, 1, **TRANSLATION)
    fairseq("train", *train)

    def generate(overrides: str) -> Done:
        return fairseq(
            command, *use, "--path", tmp_path / "checkpoint_last.pt", "--model-overrides", overrides, check=False
        )

    for overrides in ("{'encoder_layers_to_keep':'0,2'}", str(BOTH)):
        done = generate(overrides)
        assert done.returncode == 0, done.stderr
    refused = generate("{'encoder_layers_to_keep':'0,5'}")
    assert refused.returncode == 1 and "there is no layer 5: the encoder of the checkpoint has 0 to 2" in refused.stderr
