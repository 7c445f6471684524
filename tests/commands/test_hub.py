"""Trained models in Python: from_pretrained and torch.hub, with trees, labels and on another machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_localattn.errors import UsageError
from fairseq_localattn.models.classifier import PlainClassifier
from fairseq_localattn.models.transformer import LocalTransformerModel
from fairseq_localattn.variants.diffwin import DiffWinLanguageModel
from fairseq_localattn.variants.mgsa import MGSATransformer
from fairseq_localattn.variants.mma import MMATransformerModel
from support import cli
from support.cli import fairseq, train_flags, tree_of

pytestmark = pytest.mark.xdist_group("hub")  # one training of each kind serves all of this file
SHORT = {"max_len_a": 0, "max_len_b": 8}
TREES = "translation_with_phrases"


@pytest.fixture(scope="module")
def shipped(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that trains a model on one machine, and returns a folder with what is shipped to another.

    Nothing of the first is left: the paths in the checkpoint are those of folders that no longer exist.
    """
    found: dict[str, Path] = {}

    def ship(arch: str, task: str) -> Path:
        if arch not in found:
            here, there = (tmp_path_factory.mktemp(name) for name in ("machine_one", "machine_two"))
            shutil.copytree(data, here / "bin")
            fairseq("train", *train_flags(here / "bin", arch, here / "run", updates=30, task=task, lr=0.01))
            shutil.copy(here / "run" / "checkpoint_last.pt", there / "model.pt")
            for path in [*data.glob("dict.*.txt"), *data.glob("*.json")]:
                shutil.copy(path, there)
            shutil.rmtree(here)
            found[arch] = there
        return found[arch]

    return ship


@pytest.fixture(scope="module")
def mma(shipped: Any) -> Path:
    return shipped("transformer_mma_tiny", "translation")


@pytest.fixture(scope="module")
def mgsa(shipped: Any) -> Path:
    return shipped("transformer_mgsa_tiny", TREES)


def test_translations_are_those_of_interactive(mma: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("a b c d\ne f g\n")
    done = fairseq("interactive", mma, "--path", mma / "model.pt", "--cpu", "-s", "xx", "-t", "yy", "--beam", 2,
                   "--input", given, "--max-len-b", 8)  # fmt: skip
    wanted = [line.split("\t")[2] for line in sorted(done.stdout.splitlines()) if line.startswith("H-")]
    hub = MMATransformerModel.from_pretrained(mma)
    assert hub.translate(["a b c d", "e f g"], beam=2, **SHORT) == wanted and all(wanted)
    assert hub.translate("a b c d", beam=2, **SHORT) == wanted[0]


@pytest.mark.slow
def test_another_machine_says_nothing_strange(mma: Path, tmp_path: Path) -> None:
    """By torch.hub, in a new process: no warning, no error, no word of the paths of the training."""
    program = f"""
import logging, torch
logging.basicConfig(level=logging.INFO)
hub = torch.hub.load({str(cli.REPOSITORY)!r}, "localattn", {str(mma)!r}, source="local")
print(hub.translate("a b c", **{SHORT!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**cli.environment(), "PYTHONWARNINGS": ""},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.stdout.strip() == LocalTransformerModel.from_pretrained(mma).translate("a b c", **SHORT)
    said = done.stderr.splitlines()
    # "Please install tensorboardX" is fairseq's, when it is imported without the plugin as well.
    assert [line for line in said if not line.startswith("INFO:")] == [], done.stderr
    assert not any("machine_one" in line for line in said), done.stderr


def test_bpe_codes_in_the_folder_are_found(mma: Path, tmp_path: Path) -> None:
    """The file ``bpecodes`` beside the checkpoint, with the names of tokeniser and BPE as options."""
    folder = tmp_path / "model"
    shutil.copytree(mma, folder)
    (folder / "bpecodes").write_text("#version: 0.2\na b</w>\n")
    hub = MMATransformerModel.from_pretrained(folder, tokenizer="space", bpe="subword_nmt")
    plain = MMATransformerModel.from_pretrained(mma)
    assert hub.apply_bpe("cd e") == "c@@ d e"
    assert torch.equal(hub.encode("  c d e"), plain.encode("c d e"))


def test_what_is_missing_is_named(mma: Path, tmp_path: Path) -> None:
    """An archive is no folder: fairseq would unpack it without looking where its members lead, and remove it."""
    (tmp_path / "empty").mkdir()
    shutil.copy(mma / "model.pt", tmp_path / "empty")
    archive = Path(shutil.make_archive(str(tmp_path / "model"), "gztar", mma))
    for folder, name, data, message in (
        (tmp_path / "none", "model.pt", ".", "none: no such folder"),
        (archive, "model.pt", ".", "model.tar.gz: no such folder"),
        (mma, "model.pt", archive, "model.tar.gz: no such folder; give the one that has the dictionaries"),
        (mma, "modl.pt", ".", "modl.pt"),
        (tmp_path / "empty", "model.pt", ".", "dict.xx.txt"),
    ):
        with pytest.raises(UsageError, match=message) as error:
            MMATransformerModel.from_pretrained(folder, name, data)
        assert "\n" not in str(error.value)
    assert archive.is_file()


def test_trees_beside_the_sentences(mgsa: Path, tmp_path: Path) -> None:
    """As fairseq-interactive has them after a tab; an empty one stands for phrases of one word."""
    texts, trees = ["a b c d", "e f g"], [tree_of(list("abcd")), ""]
    given = tmp_path / "given"
    given.write_text(f"{texts[0]}\t{trees[0]}\n{texts[1]}\t()\n")
    done = fairseq("interactive", mgsa, "--path", mgsa / "model.pt", "--cpu", "-s", "xx", "-t", "yy", "--beam", 2,
                   "--task", TREES, "--input", given, "--max-len-b", 8)  # fmt: skip
    wanted = [line.split("\t")[1:] for line in sorted(done.stdout.splitlines()) if line.startswith("H-")]
    hub = MGSATransformer.from_pretrained(mgsa)
    assert hub.translate(texts, beam=2, trees=trees, **SHORT) == [words for _, words in wanted]
    assert hub.translate(texts[0], beam=2, trees=trees[0], **SHORT) == wanted[0][1]
    scores = []
    for tree in (trees[0], ""):
        hub.task.keep_phrases([texts[0]], [tree], hub.apply_bpe)
        scores.append(hub.generate([hub.encode(texts[0])], beam=2, **SHORT)[0][0]["score"].item())
    assert scores[0] != scores[1], "the tree changes nothing"
    assert not hub.task._batch_phrases


def test_mistakes_with_trees_are_one_line(mgsa: Path) -> None:
    hub = LocalTransformerModel.from_pretrained(mgsa)  # any class of the package knows the interface
    cases: list[tuple[Any, str]] = [
        ({}, "needs the tree of each sentence"),
        ({"trees": ["()", "()"]}, "1 sentences and 2 trees"),
        ({"trees": ["(S (A a) (B b"]}, "sentence 1: 'a b' and its tree"),
    ]
    for given, message in cases:
        with pytest.raises(UsageError) as error:
            hub.translate(["a b"], **given)
        assert message in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(UsageError, match="translate\\(sentences, trees="):
        hub.generate([hub.encode("a b")])


@pytest.mark.slow
def test_ngrams_need_no_trees(shipped: Any) -> None:
    folder = shipped("transformer_mgsa_ngram_tiny", "translation")
    for task in ("translation", TREES):
        hub = MGSATransformer.from_pretrained(folder, task=task)
        assert len(hub.translate(["a b c", "d e"], **SHORT)) == 2


def test_a_language_model_scores(data: Path, tmp_path: Path) -> None:
    binarised = cli.make_text(data, tmp_path / "bin")
    fairseq("train", *cli.lm_flags(binarised, "transformer_lm_diffwin_tiny", tmp_path, 3))
    hub = DiffWinLanguageModel.from_pretrained(tmp_path, "checkpoint_last.pt", tmp_path / "bin")
    scores = hub.score(["a b c", "d"])
    assert [len(score["positional_scores"]) for score in scores] == [3, 1]
    assert hub.sample("a b", beam=1, max_len_a=0, max_len_b=5).startswith("a b")


def test_a_classifier_names_labels(data: Path, tmp_path: Path) -> None:
    """Labels that follow from the first letter are learned and given by name."""
    classes, more = cli.make_classes(data, tmp_path), {"dropout": 0, "lr": 0.003, "lr_scheduler": "fixed"}
    fairseq("train", *cli.class_flags(classes, "transformer_localattn_classifier_tiny", tmp_path, 60, **more))
    sentences = [line.split() for line in (data.parent / "train.xx").read_text().splitlines()]
    hub = PlainClassifier.from_pretrained(tmp_path, "checkpoint_last.pt", "./bin")
    found = hub.classify([" ".join(words) for words in sentences[:50]])
    assert all(0.5 <= share <= 1 for _, share in found)
    wanted = ["low" if words[0] < "e" else "high" for words in sentences[:50]]
    assert sum(label == right for (label, _), right in zip(found, wanted, strict=True)) >= 40, found
    begin = hub.src_dict.bos()
    plain, with_token = hub.classify(["a b"]), hub.classify([f"{hub.src_dict[begin]} a b"])
    hub.task.cfg.init_token = begin
    assert hub.classify(["a b"]) == with_token != plain
    with pytest.raises(UsageError, match="classify takes a list of sentences"):
        hub.classify("a b")
    hub.task.cfg.regression_target = True
    with pytest.raises(UsageError, match="--regression-target: it gives a number, no label"):
        hub.classify(["a b"])
