"""What commands under attack read: data and valid checkpoints, and each command that reads a checkpoint."""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from experiments.runs import averaging
from fairseq_localattn.analysis import accuracy, describe
from fairseq_localattn.analysis.heatmap import command as heatmap
from fairseq_localattn.analysis.locality import command as locality
from fairseq_localattn.analysis.probing import command as probing
from fairseq_localattn.variants.mma import MMATransformerModel
from support.attacks.hostile import State
from support.cli import USER_DIR, fairseq, make_data, train_flags

Command = tuple[Callable[[], object], list[object]]


@dataclass(frozen=True)
class World:
    """A folder with data for translation (bin), language models (lm), classifiers (classes) and probing (probing)."""

    folder: Path
    states: dict[str, State]

    def state(self, kind: str) -> State:
        """Return a copy of the contents of a valid checkpoint: ``translation``, ``lm`` or ``classifier``."""
        return copy.deepcopy(self.states[kind])


def make_world(folder: Path) -> World:
    """Write the data, and train each kind of model for one update."""
    data = make_data(folder, train=16, held_out=4)
    fairseq("train", *train_flags(data, "transformer_mma_tiny", folder / "translation", 1))
    sentences = (folder / "train.xx").read_text()
    (folder / "labels").write_text("".join("low\n" if line[0] < "e" else "high\n" for line in sentences.splitlines()))

    def binarise(name: str, text: Path, *more: object) -> None:
        prefixes = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", text)]
        fairseq("preprocess", "--only-source", *prefixes, "--destdir", folder / name, *more)

    words = ("--srcdict", data / "dict.xx.txt")
    binarise("lm", folder / "train.xx", *words)
    binarise("classes/input0", folder / "train.xx", *words)
    binarise("classes/label", folder / "labels")
    (folder / "text").mkdir()
    for split in ("train", "valid", "test"):
        (folder / "text" / f"{split}.xx").write_text(sentences)
    texts = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / "text" / split)]
    fairseq("preprocess", "--only-source", "-s", "xx", *texts, "--destdir", folder / "probing", *words)
    for split in ("train", "valid", "test"):
        for name, word in (("words", "1"), ("pos.labels", "N")):
            lines = (" ".join(word for _ in line.split()) + "\n" for line in sentences.splitlines())
            (folder / "probing" / f"{split}.{name}").write_text("".join(lines))
    train = ["--optimizer", "adam", "--lr", 0.001, "--max-update", 1, "--cpu", "--no-epoch-checkpoints"]
    fairseq("train", folder / "lm", "--task", "language_modeling", "--arch", "transformer_lm_diffwin_tiny",
            "--max-tokens", 200, "--tokens-per-sample", 50, "--save-dir", folder / "lm_model", *train)  # fmt: skip
    fairseq("train", folder / "classes", "--task", "sentence_prediction", "--criterion", "sentence_prediction",
            "--num-classes", 2, "--arch", "transformer_localattn_classifier_tiny", "--batch-size", 8, "--save-dir",
            folder / "classifier", *train)  # fmt: skip
    (folder / "input").write_text("a b c\n")
    names = {"translation": "translation", "lm": "lm_model", "classifier": "classifier"}
    read = {kind: torch.load(folder / name / "checkpoint_last.pt", weights_only=False) for kind, name in names.items()}
    return World(folder, read)


def console(name: str) -> Callable[[], object]:
    """Return the main function of ``fairseq-NAME``."""
    return importlib.import_module(f"fairseq_cli.{name}").cli_main


PLUGIN = ["--user-dir", USER_DIR, "--cpu"]
LANGUAGES = ["--source-lang", "xx", "--target-lang", "yy"]


def training(world: World, flag: str, path: Path) -> Command:
    flags = train_flags(world.folder / "bin", "transformer_mma_tiny", path.parent / "saved", 2, no_save=True)
    return console("train"), [*flags, flag, path, "--user-dir", USER_DIR]


def evaluation(name: str, data: str, *more: object) -> Callable[[World, Path], Command]:
    def command(world: World, path: Path) -> Command:
        return console(name), [world.folder / data, "--path", path, *PLUGIN, *more]

    return command


def analysis(module: Any, data: str, *more: object) -> Callable[[World, Path], Command]:
    def command(world: World, path: Path) -> Command:
        return module.main, [world.folder / data, "--path", path, "--cpu", *more]

    return command


def interactive(world: World, path: Path) -> Command:
    return evaluation("interactive", "bin", *LANGUAGES, "--input", world.folder / "input")(world, path)


def probed(world: World, path: Path) -> Command:
    words = ["--encoder", path, "--encoder-data", world.folder / "bin", "--out", path.parent / "probing.csv", "--cpu"]
    return probing.main, [world.folder / "probing", *words, "--tasks", "pos", "--epochs", 1]


def averaged(world: World, path: Path) -> Command:
    return lambda: sys.exit(averaging.main()), [path, "--output", path.parent / "mean.out"]


def hub(world: World, path: Path) -> Command:
    def main() -> None:
        model = MMATransformerModel.from_pretrained(path.parent, path.name, world.folder / "bin")
        print(model.translate("a b c"))

    return main, []


#: Every command that reads a checkpoint → the kind of the checkpoint, and how the command is called.
COMMANDS: dict[str, tuple[str, Callable[[World, Path], Command]]] = {
    "train --restore-file": ("translation", lambda world, path: training(world, "--restore-file", path)),
    "train --finetune-from-model": ("translation", lambda world, path: training(world, "--finetune-from-model", path)),
    "validate": (
        "translation",
        evaluation("validate", "bin", "--task", "translation", "--max-tokens", 200, "--num-workers", 0),
    ),
    "generate": ("translation", evaluation("generate", "bin", *LANGUAGES, "--max-len-b", 5, "--num-workers", 0)),
    "interactive": ("translation", interactive),
    "eval-lm": ("lm", evaluation("eval_lm", "lm", "--num-workers", 0)),
    "from_pretrained": ("translation", hub),
    "analysis.accuracy": ("classifier", analysis(accuracy, "classes")),
    "analysis.heatmap": ("translation", analysis(heatmap, "bin", "--sentence", 0)),
    "analysis.locality": ("translation", analysis(locality, "bin")),
    "analysis.probing": ("translation", probed),
    "average": ("translation", averaged),
    "describe": ("translation", lambda world, path: (describe.main, ["--path", path])),
}
