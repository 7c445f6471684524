"""Trees from files to translations: training, translating, and the mistakes in what is read."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from fairseq_localattn.phrases import binarize
from support.cli import call, fairseq, train_flags

pytestmark = pytest.mark.xdist_group("phrases")  # one training serves all of this file
ARCH, TASK = "transformer_mgsa_tiny", "translation_with_phrases"
CRITERION = "label_smoothed_cross_entropy_with_phrase_tags"


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the last checkpoint of a short training with tags, and what the training printed."""
    folder = tmp_path_factory.mktemp("run")
    flags = {"task": TASK, "criterion": CRITERION, "mgsa_tags": True, "tag_loss_weight": 0.1}
    done = fairseq("train", *train_flags(data, ARCH, folder, updates=40, save_interval_updates=20, **flags))
    return folder / "checkpoint_last.pt", done.stdout


def hypotheses(text: str) -> dict[int, tuple[float, str]]:
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.+)$", text, re.M)
    return {int(n): (float(score), words) for n, score, words in found}


def test_the_tag_loss_is_logged_on_its_own_and_falls(trained: tuple[Path, str]) -> None:
    """At validation too, with an accuracy that rises."""
    losses = [float(n) for n in re.findall(r'"tag_loss": "([\d.]+)"', trained[1])]
    assert losses[-1] < losses[0] - 0.5, losses
    accuracies = [float(n) for n in re.findall(r'"valid_tag_accuracy": "([\d.]+)"', trained[1])]
    assert len(accuracies) >= 2 and accuracies[-1] > accuracies[0], accuracies


@pytest.mark.slow
def test_generate_and_interactive_agree(trained: tuple[Path, str], data: Path, tmp_path: Path) -> None:
    """fairseq-generate reads phrases from the binarised data, fairseq-interactive trees next to its sentences."""
    flags = ("--path", trained[0], "--beam", 2, "--cpu", "-s", "xx", "-t", "yy", "--task", TASK, "--max-len-b", 12)
    generated = hypotheses(fairseq("generate", data, *flags).stdout)
    sources = (data.parent / "test.xx").read_text().splitlines()
    trees = (data.parent / "test.xx.tree").read_text().splitlines()
    given = tmp_path / "given"
    given.write_text("".join(f"{source}\t{tree}\n" for source, tree in zip(sources, trees, strict=True)))
    for size in (1, 5):
        more = ("--input", given, "--buffer-size", size, "--batch-size", size)
        given_trees = hypotheses(fairseq("interactive", data, *flags, *more).stdout)
        for number, (score, words) in generated.items():
            assert given_trees[number] == (pytest.approx(score, abs=1e-4), words)
    flat = tmp_path / "flat"
    flat.write_text("".join(f"{source}\t()\n" for source in sources) + "\n")
    other = hypotheses(fairseq("interactive", data, *flags, "--input", flat).stdout)
    differ = [number for number, (score, _) in generated.items() if abs(other[number][0] - score) > 1e-3]
    assert differ, "the trees change nothing"
    assert len(other) == len(sources) + 1, "a blank line has its translation as well"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b c", "given:1: 'a b c' has no tree: give the sentence, a tab, and its tree in brackets, or ()"),
        ("a b c\t(S (A a) (B b))", "given:1: 'a b c' and its tree: "),
    ],
)
def test_interactive_names_the_sentence(
    trained: tuple[Path, str], data: Path, tmp_path: Path, line: str, message: str
) -> None:
    given = tmp_path / "given"
    given.write_text(line + "\n")
    flags = ("--path", trained[0], "--cpu", "-s", "xx", "-t", "yy", "--task", TASK, "--input", given)
    done = fairseq("interactive", data, *flags, check=False)
    assert done.returncode != 0 and message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_model_without_its_task(trained: tuple[Path, str], data: Path) -> None:
    done = fairseq("generate", data, "--path", trained[0], "--cpu", "-s", "xx", "-t", "yy", check=False)
    assert done.returncode != 0 and "translation_with_phrases" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("tags", "dict.xx.phrases.txt: missing"),
        ("phrases", "train.xx-yy.xx.phrases.idx: no phrases beside the source"),
        ("others", "phrases of 400 sentences, and the source has 12"),
        ("texts", "sentence 1 has phrases for"),
    ],
)
def test_data_that_do_not_fit(spoil: str, message: str, data: Path, tmp_path: Path) -> None:
    """Phrases that are missing, or belong to other sentences: the error names the file when the data are loaded."""
    folder = tmp_path / "bin"
    shutil.copytree(data, folder)
    if spoil == "tags":
        (folder / "dict.xx.phrases.txt").unlink()
    elif spoil == "phrases":
        (folder / "train.xx-yy.xx.phrases.idx").unlink()
    else:
        wrong, right = ("train", "valid") if spoil == "others" else ("test", "valid")
        for end in ("bin", "idx"):
            shutil.copy(folder / f"{wrong}.xx-yy.xx.phrases.{end}", folder / f"{right}.xx-yy.xx.phrases.{end}")
    done = fairseq("train", *train_flags(folder, ARCH, tmp_path / "run", updates=1, task=TASK), check=False)
    assert done.returncode != 0 and message in done.stderr, done.stderr[-1000:]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_extra_shards_and_an_upsampled_one(data: Path, tmp_path: Path) -> None:
    """fairseq joins train and train1, and with them their phrases."""
    text = tmp_path / "text"
    text.mkdir()
    for split, source in (("train", "train"), ("train1", "valid"), ("valid", "valid")):
        for side in ("xx", "yy", "xx.tree"):
            shutil.copy(data.parent / f"{source}.{side}", text / f"{split}.{side}")
    folder = tmp_path / "bin"
    for split in ("train", "train1"):
        prefixes = ("--trainpref", text / split, "--validpref", text / "valid")
        fairseq("preprocess", "-s", "xx", "-t", "yy", *prefixes, "--destdir", tmp_path / split,
                "--srcdict", data / "dict.xx.txt", "--tgtdict", data / "dict.yy.txt")  # fmt: skip
    shutil.copytree(tmp_path / "train", folder)
    for path in (tmp_path / "train1").glob("train.*"):
        shutil.copy(path, folder / path.name.replace("train.", "train1."))
    call(binarize.main, folder, "--lang", "xx", "--texts", text, "--trees", text, "--subwords", "none")
    for name, more in (("plain", {}), ("twice", {"upsample_primary": 2})):
        done = fairseq("train", *train_flags(folder, ARCH, tmp_path / name, updates=3, task=TASK, **more))
        assert "train1 xx-yy 12 examples" in done.stdout
