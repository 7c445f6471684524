"""Damaged data and trees in every command that reads them: each ends in one line that names the file.

A case that is found later is one more line of :data:`DAMAGES`, a command one more line of :data:`COMMANDS`.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairseq_localattn.analysis import accuracy, heatmap, locality
from fairseq_localattn.models.transformer import LocalTransformerModel
from fairseq_localattn.phrases import binarize
from support.cli import Done, call, fairseq, make_data, train_flags

pytestmark = pytest.mark.xdist_group("attacks_on_data")  # one workshop serves all tests of this file
TREES = "translation_with_phrases"


class Workshop(NamedTuple):
    """A folder with data, ``bin`` and ``classes``, the text and the trees of them, and a model of each kind."""

    folder: Path

    def model(self, kind: str) -> Path:
        return self.folder / kind / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Return data of all tasks, and models that were trained for one update."""
    folder = tmp_path_factory.mktemp("workshop")
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


# ------------------------------------------------------------------ damage


def cut(share: float) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: only the first ``share`` of them is left."""
    return lambda old: old[: int(len(old) * share)]


def put(place: int, new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: ``new`` ones from ``place`` on."""
    return lambda old: old[:place] + new + old[place + len(new) :]


def whole(new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: nothing is left of them."""
    return lambda old: new


class Damage(NamedTuple):
    """What is changed, the ending of the file, the change, and what the error says."""

    what: str
    ending: str
    change: Callable[[bytes], bytes]
    says: str


TYPE, COUNT, SIZES, OFFSETS = 17, 18, 26, 26 + 4 * 4  # places in an index of four sentences
WHOLE_INDEX = [
    Damage("magic", ".idx", put(0, b"X"), "no index of fairseq's, or damaged at its beginning"),
    Damage("version", ".idx", put(9, b"\x07"), "no index of fairseq's, or damaged at its beginning"),
    Damage("unknown type", ".idx", put(TYPE, b"c"), "no index of fairseq's, or damaged at its beginning"),
    Damage("empty index", ".idx", cut(0), "cut short, or empty"),
    Damage("header alone", ".idx", cut(0.2), ".idx: "),
    Damage("half an index", ".idx", cut(0.5), "do not hold the"),
    Damage("2^60 sentences", ".idx", put(COUNT, struct.pack("<Q", 1 << 60)), "do not hold the"),
    Damage("one sentence", ".idx", put(COUNT, struct.pack("<Q", 1)), "do not hold the 1 sentences"),
    Damage("no sentence", ".idx", lambda old: old[:COUNT] + bytes(8), "the split has no sentences"),
    Damage("negative size", ".idx", put(SIZES, struct.pack("<i", -5)), "size or the place of sentence 1 is damaged"),
    Damage("size of 2^31", ".idx", put(SIZES, struct.pack("<i", (1 << 31) - 1)), "size or the place of sentence"),
    Damage("another type", ".idx", put(TYPE, b"\x01"), "size or the place of sentence 2 is damaged"),
    Damage("empty data", ".bin", cut(0), ".bin: 0 bytes, and "),
    Damage("half the data", ".bin", cut(0.5), "one of them is damaged"),
    Damage("more data", ".bin", lambda old: old + b"1234", "one of them is damaged"),
]
#: What a command reads → how it may be damaged.
DAMAGES: dict[str, list[Damage]] = {
    "dictionary": [
        Damage("invalid UTF-8", "", lambda old: b"\xff 3\n" + old, "dict.txt:1: invalid UTF-8"),
        Damage("UTF-16", "", lambda old: old.decode().encode("utf-16"), ":1: invalid UTF-8"),
        Damage("a word twice", "", lambda old: old + old.splitlines(keepends=True)[0], "is there twice"),
        Damage("a special symbol", "", lambda old: b"<pad> 7\n" + old, ":1: the word '<pad>' is there twice, or is a"),
        Damage("no count", "", lambda old: b"word\n" + old, ":1: expected a word, a blank and its count, found 'word'"),
        Damage("cut in a line", "", lambda old: old + b"z", "expected a word, a blank and its count, found 'z'"),
        Damage("empty", "", cut(0), "no words in it"),
    ],
    "tags": [
        Damage("invalid UTF-8", "", lambda old: b"\xff 3\n" + old, "phrases.txt:1: invalid UTF-8"),
        Damage("a tag twice", "", lambda old: old + old.splitlines(keepends=True)[0], "is there twice"),
        Damage("no count", "", lambda old: b"NP\n" + old, ":1: expected a word, a blank and its count, found 'NP'"),
    ],
    "settings": [
        Damage("empty", "", cut(0), "phrases.json: damaged (JSONDecodeError"),
        Damage("invalid UTF-8", "", whole(b"\xff"), "phrases.json: damaged (UnicodeDecodeError"),
        Damage("nested", "", whole(b"[" * 100_000), "phrases.json: damaged (RecursionError"),
        Damage("a list", "", whole(b"[1]"), "phrases.json: damaged (TypeError"),
        Damage("no level", "", whole(b'{"levels": 0, "subwords": "none"}'), "phrases.json: damaged: 0 levels"),
        Damage("infinity", "", whole(b'{"levels": 1e999, "subwords": "none"}'), "phrases.json: damaged (OverflowErr"),
        Damage("10^9 levels", "", whole(b'{"levels": 1000000000, "subwords": "none"}'), "damaged: 1000000000 levels"),
        Damage("subwords", "", whole(b'{"levels": 3, "subwords": "bpe"}'), "damaged: 3 levels, subwords 'bpe'"),
    ],
    "index": WHOLE_INDEX,
    "data": [
        *WHOLE_INDEX,
        Damage("unknown word", ".bin", put(0, b"\xff\xfe"), "number 65279 of a word, and the dictionary has"),
    ],
    "phrases": [
        *WHOLE_INDEX,
        Damage("negative subwords", ".bin", put(0, struct.pack("<i", -3)), "has phrases for -3 subwords"),
        Damage("2^31 levels", ".bin", put(4, struct.pack("<i", (1 << 31) - 1)), "phrases on 2147483647 levels"),
        Damage("2^30 phrases", ".bin", put(8, struct.pack("<i", 1 << 30)), "sentence 1: packed phrases of"),
        Damage("negative phrases", ".bin", put(8, struct.pack("<i", -1)), "sentence 1: packed phrases of"),
        Damage("negative length", ".bin", put(20, struct.pack("<i", -(1 << 30))), "with a negative number"),
        Damage("length of 0", ".bin", put(20, bytes(4)), "sentence 1: level 1 of packed phrases has lengths"),
    ],
}  # fmt: skip
PAIRS = [
    (command, at, damage)
    for command, (_, reads) in COMMANDS.items()
    for at in reads
    for damage in DAMAGES[at]
]  # fmt: skip
# The first command that reads such a file shows every damage, and each of the others one of them.
FIRST = {at: command for command, (_, reads) in reversed(COMMANDS.items()) for at in reads}
QUICK = [(command, at, damage) for command, at, damage in PAIRS if command == FIRST[at]]
SLOW = [
    (command, at, DAMAGES[at][place % len(DAMAGES[at])])
    for place, (command, (_, reads)) in enumerate(COMMANDS.items())
    for at in reads
    if command != FIRST[at]
]
LONG = [pair for pair in PAIRS if pair not in QUICK and pair not in SLOW]


def name(value: object) -> str | None:
    return value.what if isinstance(value, Damage) else None


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


def damage_and_run(workshop: Workshop, command: str, at: str, damage: Damage, folder: Path) -> None:
    data = copied(workshop, command, folder)
    run, reads = COMMANDS[command]
    file = data / (reads[at] + damage.ending)
    file.write_bytes(damage.change(file.read_bytes()))
    says = damage.says.removeprefix("dict.txt")
    assert_one_line(run(workshop, data), str(file).rpartition(".")[0], says)


@pytest.mark.parametrize("command", COMMANDS)
def test_whole_data_are_read(command: str, workshop: Workshop, tmp_path: Path) -> None:
    """Each command as it is called here succeeds; without this, its refusals would show nothing."""
    done = COMMANDS[command][0](workshop, copied(workshop, command, tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(("command", "at", "damage"), QUICK, ids=name)
def test_damaged(command: str, at: str, damage: Damage, workshop: Workshop, tmp_path: Path) -> None:
    damage_and_run(workshop, command, at, damage, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "at", "damage"), SLOW, ids=name)
def test_damaged_in_every_command(command: str, at: str, damage: Damage, workshop: Workshop, tmp_path: Path) -> None:
    damage_and_run(workshop, command, at, damage, tmp_path)


@pytest.mark.attack
@pytest.mark.parametrize(("command", "at", "damage"), LONG, ids=name)
def test_every_damage_in_every_command(
    command: str, at: str, damage: Damage, workshop: Workshop, tmp_path: Path
) -> None:
    damage_and_run(workshop, command, at, damage, tmp_path)
