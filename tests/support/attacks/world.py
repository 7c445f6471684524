"""What commands under attack read, data and valid checkpoints, and each command that reads some."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from experiments.runs import averaging
from fairseq_localattn.analysis import accuracy, describe
from fairseq_localattn.analysis.heatmap import command as heatmap
from fairseq_localattn.analysis.locality import command as locality
from fairseq_localattn.analysis.probing import command as probing
from fairseq_localattn.models.transformer import LocalTransformerModel
from fairseq_localattn.phrases import binarize
from support.cli import (
    SPLITS,
    Done,
    call,
    class_flags,
    fairseq,
    lm_flags,
    make_classes,
    make_data,
    make_text,
    train_flags,
)

TREES = "translation_with_phrases"
LM, CLASSIFIER = "transformer_lm_diffwin_tiny", "transformer_localattn_classifier_tiny"
PAIR = ["-s", "xx", "-t", "yy", "--beam", 1, "--max-len-b", 5]
VALID = ["--max-tokens", 100, "--valid-subset", "test"]


class World(NamedTuple):
    """A folder with data (bin, classes/bin, probing), their text and trees, and a model of each kind."""

    folder: Path

    def model(self, kind: str) -> Path:
        return self.folder / kind / "checkpoint_last.pt"

    def data(self, command: str) -> Path:
        """Return the folder of data that a command reads."""
        return self.folder / ("classes/bin" if COMMANDS[command].kind == "classifier" else "bin")


def make_world(folder: Path) -> World:
    """Write the data, and train each kind of model for one update."""
    data = make_data(folder, train=24, held_out=4)
    make_text(data, data)
    (folder / "classes").mkdir()
    classes = make_classes(data, folder / "classes")
    texts = [word for split in SPLITS for word in (f"--{split}pref", folder / split)]
    words = ["--srcdict", data / "dict.xx.txt", "--destdir", folder / "probing"]
    fairseq("preprocess", "--only-source", "-s", "xx", *texts, *words)
    for split in SPLITS:
        lines = (folder / f"{split}.xx").read_text().splitlines()
        for name, word in (("words", "1"), ("pos.labels", "N")):
            text = "".join(" ".join(word for _ in line.split()) + "\n" for line in lines)
            (folder / "probing" / f"{split}.{name}").write_text(text)
    for kind, task in (("csan", "translation"), ("mgsa", TREES)):
        fairseq("train", *train_flags(data, f"transformer_{kind}_tiny", folder / kind, 1, task=task))
    fairseq("train", *lm_flags(data, LM, folder / "lm", 1))
    fairseq("train", *class_flags(classes, CLASSIFIER, folder / "classifier", 1))
    return World(folder)


Run = Callable[[World, Path, Path], Done]  # of the world, the data and the checkpoint


class Command(NamedTuple):
    """Kind of the checkpoint, how it is called, and what it reads: a dictionary, a side of data, phrases, tags."""

    kind: str
    run: Run
    reads: dict[str, str] = {}


def training(kind: str, task: str, flag: str = "", updates: int = 1) -> Run:
    """Return a training; flag: that which takes the checkpoint."""

    def train(world: World, data: Path, path: Path) -> Done:
        words = train_flags(data, f"transformer_{kind}_tiny", data / "run", updates, task=task, no_save=True)
        return fairseq("train", *words, *([flag, path] if flag else []), check=False)

    return train


def training_of(flags: Callable[..., list[object]], arch: str) -> Run:
    """Return a training whose flags a function of :mod:`support.cli` gives."""
    return lambda world, data, path: fairseq("train", *flags(data, arch, data / "run", 1, no_save=True), check=False)


def evaluated(command: str, *words: object) -> Run:
    return lambda world, data, path: fairseq(command, data, "--path", path, "--cpu", *words, check=False)


def analysed(module: Any, *words: object) -> Run:
    return lambda world, data, path: call(module.main, data, "--path", path, "--cpu", *words, check=False)


def hub(**given: Any) -> Run:
    def translate(world: World, data: Path, path: Path) -> Done:
        def main() -> None:
            model = LocalTransformerModel.from_pretrained(path.parent, path.name, data)
            print(model.translate(["a b c"], max_len_a=0, max_len_b=4, **given))

        return call(main, check=False)

    return translate


def binarised(world: World, data: Path, path: Path) -> Done:
    words = ["--lang", "xx", "--texts", world.folder, "--trees", world.folder, "--subwords", "none", "--workers", "1"]
    return call(binarize.main, data, *words, check=False)


def preprocessed(world: World, data: Path, path: Path) -> Done:
    words = ["--srcdict", data / "dict.xx.txt", "--tgtdict", data / "dict.yy.txt", "--destdir", data / "new"]
    return fairseq("preprocess", "-s", "xx", "-t", "yy", "--testpref", world.folder / "test", *words, check=False)


def interactive(world: World, data: Path, path: Path) -> Done:
    return evaluated("interactive", *PAIR, "--input", world.folder / "test.xx")(world, data, path)


def probed(world: World, data: Path, path: Path) -> Done:
    words = ["--encoder", path, "--encoder-data", data, "--out", path.parent / "probing.csv", "--cpu"]
    return call(probing.main, world.folder / "probing", *words, "--tasks", "pos", "--epochs", 1, check=False)


def averaged(world: World, data: Path, path: Path) -> Done:
    return call(lambda: sys.exit(averaging.main()), path, "--output", path.parent / "mean.out", check=False)


def described(world: World, data: Path, path: Path) -> Done:
    return call(describe.main, "--path", path, check=False)


#: Every command that reads data or a checkpoint.
COMMANDS = {
    "locality": Command("csan", analysed(locality), {"dictionary": "dict.xx.txt", "data": "test.xx-yy.xx"}),
    "locality of phrases": Command(
        "mgsa", analysed(locality),
        {"tags": "dict.xx.phrases.txt", "settings": "xx.phrases.json", "phrases": "test.xx-yy.xx.phrases"},
    ),
    "heatmap": Command(
        "csan", analysed(heatmap, "--sentence", "0"), {"dictionary": "dict.yy.txt", "data": "test.xx-yy.yy"}
    ),
    "accuracy": Command("classifier", analysed(accuracy), {"dictionary": "label/dict.txt", "data": "input0/test"}),
    "accuracy, labels": Command("classifier", analysed(accuracy), {"data": "label/test"}),
    "binarize": Command("mgsa", binarised, {"index": "test.xx-yy.xx"}),
    "preprocess": Command("csan", preprocessed, {"dictionary": "dict.xx.txt"}),
    "from_pretrained": Command("csan", hub(), {"dictionary": "dict.xx.txt"}),
    "from_pretrained with trees": Command("mgsa", hub(trees=["()"]), {"tags": "dict.xx.phrases.txt"}),
    "train": Command(
        "csan", training("csan", "translation"), {"dictionary": "dict.xx.txt", "data": "train.xx-yy.yy"}
    ),
    "train with phrases": Command(
        "mgsa", training("mgsa", TREES),
        {"tags": "dict.xx.phrases.txt", "settings": "xx.phrases.json", "phrases": "train.xx-yy.xx.phrases"},
    ),
    "train a language model": Command(
        "lm", training_of(lm_flags, LM),
        {"dictionary": "dict.txt", "data": "train"},
    ),
    "train a classifier": Command(
        "classifier", training_of(class_flags, CLASSIFIER),
        {"dictionary": "input0/dict.txt", "data": "input0/train"},
    ),
    "validate": Command(
        "csan", evaluated("validate", "--task", "translation", *VALID),
        {"dictionary": "dict.yy.txt", "data": "test.xx-yy.yy"},
    ),
    "validate with phrases": Command(
        "mgsa", evaluated("validate", "--task", TREES, *VALID), {"phrases": "test.xx-yy.xx.phrases"}
    ),
    "generate": Command("csan", evaluated("generate", *PAIR), {"dictionary": "dict.xx.txt", "data": "test.xx-yy.xx"}),
    "generate with phrases": Command(
        "mgsa", evaluated("generate", *PAIR, "--task", TREES),
        {"tags": "dict.xx.phrases.txt", "phrases": "test.xx-yy.xx.phrases"},
    ),
    "interactive": Command("csan", interactive, {"dictionary": "dict.xx.txt"}),
    "eval-lm": Command(
        "lm", evaluated("eval-lm", "--gen-subset", "test", "--sample-break-mode", "eos", "--max-tokens", 500),
        {"dictionary": "dict.txt", "data": "test"},
    ),
    "train --restore-file": Command("csan", training("csan", "translation", "--restore-file", 2)),
    "train --finetune-from-model": Command("csan", training("csan", "translation", "--finetune-from-model", 2)),
    "probing": Command("csan", probed),
    "average": Command("csan", averaged),
    "describe": Command("csan", described),
}  # fmt: skip
#: Those that read data alone, or the checkpoint as another one does.
NO_CHECKPOINT = (
    "accuracy, labels", "binarize", "preprocess", "train", "train with phrases", "train a language model",
    "train a classifier", "locality of phrases", "from_pretrained with trees", "validate with phrases",
    "generate with phrases",
)  # fmt: skip


def copied(world: World, command: str, folder: Path) -> Path:
    """Return a copy of the data that a command reads."""
    return Path(shutil.copytree(world.data(command), folder / "bin"))


def run(world: World, command: str, data: Path) -> Done:
    """Run a command on data, with a valid checkpoint."""
    kind, work, _ = COMMANDS[command]
    return work(world, data, world.model(kind))


def assert_one_line(done: Done, *parts: str) -> None:
    """Assert that a command failed, and said why in one line."""
    said = [line for line in done.stderr.splitlines() if line.strip() and "it/s" not in line]
    assert done.returncode == 1 and len(said) == 1, (done.returncode, done.stderr[-3000:])
    assert "Traceback" not in done.stdout
    assert all(part in said[0] for part in parts), (parts, said[0])
