"""Commands that read data, and a workshop with the data and the models that they read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_localattn.analysis import accuracy
from fairseq_localattn.analysis.heatmap import command as heatmap
from fairseq_localattn.analysis.locality import command as locality
from fairseq_localattn.models.transformer import LocalTransformerModel
from fairseq_localattn.phrases import binarize
from support.cli import Done, call, fairseq, make_data, train_flags

TREES = "translation_with_phrases"


class Workshop(NamedTuple):
    """A folder with data, ``bin`` and ``classes``, the text and the trees of them, and a model of each kind."""

    folder: Path

    def model(self, kind: str) -> Path:
        return self.folder / kind / "checkpoint_last.pt"


@lru_cache(maxsize=1)
def make_workshop(folder: Path) -> Workshop:
    """Return a new folder with data of all tasks and models that were trained for one update; made once a process."""
    data = make_data(folder, train=24, held_out=4)
    shutil.copy(data / "dict.xx.txt", data / "dict.txt")  # for the language model
    inputs, labels = folder / "classes" / "input0", folder / "classes" / "label"
    inputs.mkdir(parents=True)
    shutil.copy(data / "dict.xx.txt", inputs / "dict.txt")
    prefixes: list[object] = []
    for split, size in (("train", 24), ("valid", 4), ("test", 4)):
        for end in ("bin", "idx"):
            for target in (data, inputs):
                shutil.copy(data / f"{split}.xx-yy.xx.{end}", target / f"{split}.{end}")
        (folder / f"{split}.label").write_text("low\nhigh\n" * (size // 2))
        prefixes += [f"--{split}pref", folder / f"{split}.label"]
    fairseq("preprocess", "--only-source", *prefixes, "--destdir", labels)
    for kind, task in (("csan", "translation"), ("mgsa", TREES)):
        fairseq("train", *train_flags(data, f"transformer_{kind}_tiny", folder / kind, 1, task=task))
    for kind, words in (("lm", lm_flags(data)), ("classifier", class_flags(folder / "classes"))):
        fairseq("train", *words, "--save-dir", folder / kind, "--no-epoch-checkpoints")
    return Workshop(folder)


SHORT = ["--optimizer", "adam", "--lr", 0.01, "--max-update", 1, "--cpu"]


def lm_flags(data: Path) -> list[object]:
    words = "--task language_modeling --arch transformer_lm_diffwin_tiny --sample-break-mode eos --tokens-per-sample 32"
    return [data, *words.split(), "--max-tokens", 200, *SHORT]


def class_flags(data: Path) -> list[object]:
    words = "--task sentence_prediction --criterion sentence_prediction --num-classes 2 --batch-size 40"
    return [data, *words.split(), "--arch", "transformer_localattn_classifier_tiny", *SHORT]


# ------------------------------------------------------------------ commands


def translation(kind: str, task: str) -> Callable[[Workshop, Path], Done]:
    def train(workshop: Workshop, data: Path) -> Done:
        words = train_flags(data, f"transformer_{kind}_tiny", data / "run", 1, task=task, no_save=True)
        return fairseq("train", *words, check=False)

    return train


def evaluated(command: str, kind: str, *words: object) -> Callable[[Workshop, Path], Done]:
    def evaluate(workshop: Workshop, data: Path) -> Done:
        return fairseq(command, data, "--path", workshop.model(kind), "--cpu", *words, check=False)

    return evaluate


def analysed(module: Any, kind: str, *words: str) -> Callable[[Workshop, Path], Done]:
    def analyse(workshop: Workshop, data: Path) -> Done:
        argv = [str(data), "--path", str(workshop.model(kind)), "--cpu", *words]
        return call(lambda: module.main(argv), check=False)

    return analyse


def hub(kind: str, **given: Any) -> Callable[[Workshop, Path], Done]:
    def translate(workshop: Workshop, data: Path) -> Done:
        def main() -> None:
            path = workshop.model(kind)
            model = LocalTransformerModel.from_pretrained(path.parent, path.name, data)
            print(model.translate(["a b c"], max_len_a=0, max_len_b=4, **given))

        return call(main, check=False)

    return translate


def binarised(workshop: Workshop, data: Path) -> Done:
    """Binarise the trees of the workshop, or those in ``data/texts``, where a test has damaged them."""
    texts = data / "texts" if (data / "texts").exists() else workshop.folder
    words = ["--lang", "xx", "--texts", str(texts), "--trees", str(texts), "--subwords", "none", "--workers", "1"]
    return call(lambda: binarize.main([str(data), *words]), check=False)


def preprocessed(workshop: Workshop, data: Path) -> Done:
    words = ["--srcdict", data / "dict.xx.txt", "--tgtdict", data / "dict.yy.txt", "--destdir", data / "new"]
    return fairseq("preprocess", "-s", "xx", "-t", "yy", "--testpref", workshop.folder / "test", *words, check=False)


PAIR = ["-s", "xx", "-t", "yy", "--beam", 1, "--max-len-b", 5]
VALID = ["--max-tokens", 100, "--valid-subset", "test"]


def interactive(workshop: Workshop, data: Path) -> Done:
    return evaluated("interactive", "csan", *PAIR, "--input", workshop.folder / "test.xx")(workshop, data)


#: Command → how it is called, and what it reads: a dictionary, one side of a data set, phrases, their tags.
COMMANDS: dict[str, tuple[Callable[[Workshop, Path], Done], dict[str, str]]] = {
    "locality": (analysed(locality, "csan"), {"dictionary": "dict.xx.txt", "data": "test.xx-yy.xx"}),
    "locality of phrases": (
        analysed(locality, "mgsa"),
        {"tags": "dict.xx.phrases.txt", "settings": "xx.phrases.json", "phrases": "test.xx-yy.xx.phrases"},
    ),
    "heatmap": (analysed(heatmap, "csan", "--sentence", "0"), {"dictionary": "dict.yy.txt", "data": "test.xx-yy.yy"}),
    "accuracy": (analysed(accuracy, "classifier"), {"dictionary": "label/dict.txt", "data": "input0/test"}),
    "accuracy, labels": (analysed(accuracy, "classifier"), {"data": "label/test"}),
    "binarize": (binarised, {"index": "test.xx-yy.xx"}),
    "preprocess": (preprocessed, {"dictionary": "dict.xx.txt"}),
    "from_pretrained": (hub("csan"), {"dictionary": "dict.xx.txt"}),
    "from_pretrained with trees": (hub("mgsa", trees=["()"]), {"tags": "dict.xx.phrases.txt"}),
    "train": (translation("csan", "translation"), {"dictionary": "dict.xx.txt", "data": "train.xx-yy.yy"}),
    "train with phrases": (
        translation("mgsa", TREES),
        {"tags": "dict.xx.phrases.txt", "settings": "xx.phrases.json", "phrases": "train.xx-yy.xx.phrases"},
    ),
    "train a language model": (
        lambda _, data: fairseq("train", *lm_flags(data), "--no-save", check=False),
        {"dictionary": "dict.txt", "data": "train"},
    ),
    "train a classifier": (
        lambda _, data: fairseq("train", *class_flags(data), "--no-save", check=False),
        {"dictionary": "input0/dict.txt", "data": "input0/train"},
    ),
    "validate": (
        evaluated("validate", "csan", "--task", "translation", *VALID),
        {"dictionary": "dict.yy.txt", "data": "test.xx-yy.yy"},
    ),
    "validate with phrases": (
        evaluated("validate", "mgsa", "--task", TREES, *VALID), {"phrases": "test.xx-yy.xx.phrases"}
    ),
    "generate": (evaluated("generate", "csan", *PAIR), {"dictionary": "dict.xx.txt", "data": "test.xx-yy.xx"}),
    "generate with phrases": (
        evaluated("generate", "mgsa", *PAIR, "--task", TREES),
        {"tags": "dict.xx.phrases.txt", "phrases": "test.xx-yy.xx.phrases"},
    ),
    "interactive": (interactive, {"dictionary": "dict.xx.txt"}),
    "eval-lm": (
        evaluated("eval-lm", "lm", "--gen-subset", "test", "--sample-break-mode", "eos", "--max-tokens", 500),
        {"dictionary": "dict.txt", "data": "test"},
    ),
}  # fmt: skip


def copied(workshop: Workshop, command: str, folder: Path) -> Path:
    """Return a copy of the data that a command reads."""
    classes = any("/" in file for file in COMMANDS[command][1].values())
    return Path(shutil.copytree(workshop.folder / ("classes" if classes else "bin"), folder / "bin"))


def assert_one_line(done: Done, *parts: str) -> None:
    """Assert that a command failed, and said why in one line."""
    said = [line for line in done.stderr.splitlines() if line.strip() and "it/s" not in line]
    assert done.returncode == 1 and len(said) == 1, (done.returncode, done.stderr[-3000:])
    assert "Traceback" not in done.stdout
    assert all(part in said[0] for part in parts), (parts, said[0])
