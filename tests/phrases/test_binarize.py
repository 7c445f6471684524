"""The command that binarises phrases: its files, its errors, and runs that are stopped."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder

from fairseq_localattn.errors import UsageError
from fairseq_localattn.parallel import map_in_order
from fairseq_localattn.phrases import binarize
from fairseq_localattn.phrases import write as phrase_writer
from fairseq_localattn.phrases.dataset import PhraseData
from fairseq_localattn.phrases.store import unpack
from fairseq_localattn.phrases.subwords import project
from fairseq_localattn.phrases.trees import partition, read_tree
from support.attacks.faults import left_over, small_disk
from support.cli import fairseq
from support.corpora.prep import change_line
from support.trees import FIGURE_1

Rows = list[tuple[str, str | None]]
# Texts in subwords with their trees; None: without a tree.
LINES: dict[str, Rows] = {
    "train": [
        ("Bu@@ sh held a talk with Sha@@ r@@ on", FIGURE_1),
        ("he s@@ lept", None),
        ("", None),
        ("&apos;s &quot; &#91; @-@", "(X (POS 's) (`` ``) (-LRB- -LSB-) (HYPH -))"),
        ("go on", "(S-IMP (VB go) (RP down))"),
    ],
    "valid": [("he fell .", "(ROOT (S (NP-SBJ (PRP he)) (VP (VBD fell)) (. .)))")],
    "test": [("fire", "(ROOT (NP (NN fire)))")],
}


def write(folder: Path, lines: dict[str, Rows]) -> list[str]:
    """Write binarised sources, texts and trees of splits to a folder; return the command's arguments."""
    for name in ("bin", "bpe", "tree"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for split, rows in lines.items():
        (folder / f"bpe/{split}.en").write_text("".join(f"{text}\n" for text, _ in rows), "utf-8")
        (folder / f"tree/{split}.en.tree").write_text("".join(f"{tree or ''}\n" for _, tree in rows), "utf-8")
        builder = MMapIndexedDatasetBuilder(str(folder / f"bin/{split}.en-de.en.bin"), dtype=np.uint16)
        for text, _ in rows:
            builder.add_item(torch.full((len(text.split()) + 1,), 5))
        builder.finalize(str(folder / f"bin/{split}.en-de.en.idx"))
    return [str(folder / "bin"), "--lang", "en", "--texts", str(folder / "bpe"), "--trees", str(folder / "tree")]


def load(folder: Path, split: str) -> list[tuple[int, list[tuple[list[int], list[str]]]]]:
    """Return n and (lengths, tags) of each level, for each sentence of a split."""
    tags = Dictionary.load(str(folder / "dict.en.phrases.txt"))
    data = MMapIndexedDataset(str(folder / f"{split}.en-de.en.phrases"))
    rows = [unpack(data[index]) for index in range(len(data))]
    return [(n, [(sizes.tolist(), [tags[tag] for tag in names]) for sizes, names in levels]) for n, levels in rows]


def phrase_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "phrases" in path.name)


@pytest.fixture
def data(tmp_path) -> list[str]:
    return write(tmp_path, LINES)


def test_binarised_phrases_read_back(data, tmp_path, capsys):
    binarize.main(data)
    out = tmp_path / "bin"
    assert phrase_files(out) == sorted(
        ["dict.en.phrases.txt", "en.phrases.json"]
        + [f"{split}.en-de.en.phrases.{kind}" for split in LINES for kind in ("bin", "idx")]
    )
    figure = (9, project(partition(read_tree(FIGURE_1)), [2, 1, 1, 1, 1, 3]))
    *first, fourth, _ = load(out, "train")
    assert first == [figure, (3, [([1, 2], ["<pad>"] * 2)] * 3), (0, [([], [])] * 3)]
    assert fourth[1][0] == ([1] * 4, ["POS", "``", "-LRB-", "HYPH"])
    assert load(out, "valid") == [(3, [([1] * 3, ["NP", "VP", "."])] * 3)]
    assert load(out, "test") == [(1, [([1], ["NN"])] * 3)]
    assert MMapIndexedDataset(str(out / "test.en-de.en.phrases"))._index.dtype == np.int32
    report = capsys.readouterr().out
    counts = "5 sentences, 2 without a tree (40.00 %); phrases a sentence by level: 2.00, 2.40, 2.80"
    assert f"train.en-de.en: {counts}\n" in report and "dict.en.phrases.txt: 14 tags" in report
    assert f"differ from the leaves in 1 sentences, first {tmp_path}/tree/train.en.tree:5;" in report
    # Tags are ordered by their count in training, then in all splits, then by name.
    assert (out / "dict.en.phrases.txt").read_text("utf-8").splitlines() == [
        "NP 5", "-LRB- 3", "HYPH 3", "POS 3", "RP 3", "VB 3", "`` 3", "VBD 2",
        "NN 1", "VP 1", "DT 1", "IN 1", "PP 1", ". 0",
    ]  # fmt: skip


def test_phrases_fit_what_fairseq_preprocess_writes(tmp_path):
    """Among the sentences, a blank one, and one with a no-break space, which only fairseq splits at."""
    rows = [*LINES["train"], ("he\u00a0fell  .", LINES["valid"][0][1])]
    arguments = write(tmp_path, {"train": rows})
    (tmp_path / "bpe/train.de").write_bytes((tmp_path / "bpe/train.en").read_bytes())
    fairseq("preprocess", "-s", "en", "-t", "de", "--trainpref", tmp_path / "bpe/train", "--destdir", tmp_path / "new")
    binarize.main([str(tmp_path / "new"), *arguments[1:]])
    found = load(tmp_path / "new", "train")
    source = MMapIndexedDataset(str(tmp_path / "new/train.en-de.en"))
    assert [n for n, _ in found] == [9, 3, 0, 4, 2, 3] == (source.sizes - 1).tolist()
    assert found[5][1][0] == ([1, 1, 1], ["NP", "VP", "."])


def test_sentencepiece_and_other_levels(tmp_path):
    arguments = write(tmp_path, {"train": [("▁B ush ▁held ▁a ▁talk ▁with ▁Shar on", FIGURE_1)]})
    binarize.main([*arguments, "--subwords", "sentencepiece", "--levels", "1"])
    assert load(tmp_path / "bin", "train") == [(8, [([2, 6], ["NP", "VP"])])]
    settings = {"lang": "en", "levels": 1, "subwords": "sentencepiece"}
    assert json.loads((tmp_path / "bin/en.phrases.json").read_text()) == settings


def test_other_data_take_the_dictionary_of_the_training_data(data, tmp_path):
    binarize.main(data)
    other = tmp_path / "other"
    arguments = write(other, {"test": LINES["valid"], "test1": LINES["test"]})
    with pytest.raises(UsageError, match="no training split to take the tags from; give --tag-dictionary"):
        binarize.main(arguments)
    given = tmp_path / "bin/dict.en.phrases.txt"
    binarize.main([*arguments, "--tag-dictionary", str(given)])
    assert (other / "bin/dict.en.phrases.txt").read_bytes() == given.read_bytes()
    assert load(other / "bin", "test") == load(tmp_path / "bin", "valid")
    assert load(other / "bin", "test1") == load(tmp_path / "bin", "test")


def test_several_processes_write_the_same(tmp_path, monkeypatch):
    rows: Rows = [(f"a{'@@ b' * (index % 3)} c d", f"(S (NP (DT a) (T{index % 7} c)) (VB d))") for index in range(100)]
    arguments = write(tmp_path, {"train": rows, "valid": rows[:3]})
    monkeypatch.setattr(phrase_writer, "CHUNK", 7)
    written = []
    for workers in ("1", "3"):
        binarize.main([*arguments, "--workers", workers])
        written.append({name: (tmp_path / "bin" / name).read_bytes() for name in phrase_files(tmp_path / "bin")})
    assert written[0] == written[1]
    assert [n for n, _ in load(tmp_path / "bin", "train")] == [3 + index % 3 for index in range(100)]


TREES, TEXT = "tree/train.en.tree", "bpe/train.en"
# What is changed in each file (None: it is deleted; a number: that line), part of the message.
SPOILT: list[tuple[dict[str, Any], str]] = [
    ({TREES: (5, "(S (VB go) (RP on)")}, "tree/train.en.tree:5: unbalanced brackets: 1 not closed; parse"),
    ({TREES: (2, "(S (A a))")}, "tree/train.en.tree:2: the tree has 1 leaves, the sentence 2 words; parse"),
    # In fairseq's dictionary of tags these would become that symbol, and a phrase without a tag.
    *(
        ({TREES: (5, f"(ROOT (S ({label} (VB go)) (RP on)))")}, f"5: the label {label} is a special symbol")
        for label in ("<s>", "<pad>", "</s>", "<unk>")
    ),
    ({"tree/valid.en.tree": None}, "tree/valid.en.tree: no such file; parse valid.en, or take valid.en-de.en out of"),
    ({"bpe/valid.en": None}, "bpe/valid.en: no such file; --texts is the folder"),
    ({"tree/valid.en.tree": ""}, "tree/valid.en.tree:1: no such line, "),
    ({"tree/valid.en.tree": "\n\n"}, "bpe/valid.en:2: no such line, "),
    ({"bin/valid.en-de.en.idx": ""}, "bin/valid.en-de.en.idx: cut short, or empty"),
    ({"bin/valid.en-de.en.bin": ""}, "bin/valid.en-de.en.bin: 0 bytes, and "),
    # Text that is not what was binarised.
    ({TEXT: (5, "g@@ o on")}, "bpe/train.en:5: 3 subwords, "),
    ({TEXT: (6, "more\n"), TREES: (6, "\n")}, "bpe/train.en:6: "),
    ({TEXT: "a b\n" * 2, TREES: "\n" * 2}, "bpe/train.en:1: 2 subwords, "),
    ({TEXT: "\n".join(text for text, _ in LINES["train"][:2]) + "\n", TREES: "\n\n"}, "bpe/train.en:3: no such line, "),
]


@pytest.mark.parametrize(("changes", "message"), SPOILT)
def test_what_does_not_fit_is_named_with_its_line(data, tmp_path, changes, message):
    for name, change in changes.items():
        if isinstance(change, tuple):
            change_line(tmp_path / name, *change)
        elif change is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_text(change)
    for workers in ("1", "2"):
        with pytest.raises(UsageError, match=re.escape(message)) as error:
            binarize.main([*data, "--workers", workers])
        assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)
    assert phrase_files(tmp_path / "bin") == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--lang", "fr"], "bin: no binarised fr, such as train.fr-xx.fr.idx; run fairseq-preprocess"),
        (["--tag-dictionary", "nothing.txt"], "--tag-dictionary nothing.txt: No such file"),
        (["--tag-dictionary", "NP"], "tree/train.en.tree:1: the tag VP is not in NP; take the parser"),
        (["--tag-dictionary", "twice"], "twice:2: the word 'NP' is there twice"),
        (["--levels", "1001"], "--levels 1001: at most 1000 are possible"),
        (["--levels", "9" * 30], f"--levels {'9' * 30}: at most 1000 are possible"),
    ],
)
def test_wrong_use_is_told(data, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    Path("NP").write_text("NP 1\n")
    Path("twice").write_text("NP 1\nNP 1\n")
    with pytest.raises(UsageError, match=message):
        binarize.main([*data, *flags])
    assert phrase_files(tmp_path / "bin") == []


def test_levels_and_workers_are_at_least_one(data, capsys):
    for flag in ("--levels", "--workers"):
        with pytest.raises(SystemExit):
            binarize.main([*data, flag, "0"])
        assert f"{flag} must be 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("levels", [6, 1000])
def test_a_short_text_takes_the_levels_of_its_model(tmp_path, levels):
    """The longest sentence has three subwords; the levels below the words repeat them."""
    given = tmp_path / "tags.txt"
    given.write_text("NP 1\nVP 1\n. 1\n")
    arguments = write(tmp_path, {"test": [*LINES["valid"], ("", None)]})
    binarize.main([*arguments, "--levels", str(levels), "--tag-dictionary", str(given)])
    assert load(tmp_path / "bin", "test") == [(3, [([1] * 3, ["NP", "VP", "."])] * levels), (0, [([], [])] * levels)]
    PhraseData(tmp_path / "bin/test.en-de.en.phrases").check(np.array([4, 1]), levels)


def test_interrupted_renaming_leaves_only_complete_splits(data, tmp_path):
    """Whatever number of files was renamed, the splits that can be loaded are complete, and of the new run."""
    data = [*data, "--workers", "1"]
    binarize.main([*data, "--levels", "1"])
    out = tmp_path / "bin"
    for allowed in range(8):
        failing = mock.Mock(wraps=os.replace, side_effect=[mock.DEFAULT] * allowed + [KeyboardInterrupt])
        with mock.patch.object(os, "replace", failing), pytest.raises(SystemExit) as error:
            binarize.main(data)
        assert error.value.code == 130
        loading = [split for split in LINES if MMapIndexedDataset.exists(str(out / f"{split}.en-de.en.phrases"))]
        assert len(loading) == max(0, allowed - 5)
        assert all(len(levels) == 3 for split in loading for _, levels in load(out, split))
    binarize.main(data)
    assert load(out, "train")[0][0] == 9


def test_a_disk_that_fills_up_is_named_and_keeps_the_former_phrases(tmp_path):
    """A disk without any space is found before the work begins."""
    arguments = write(tmp_path, {"train": LINES["train"] * 800, "valid": LINES["valid"]})
    with small_disk(tmp_path / "disk", 10_000) as disk:
        out = disk.folder / "bin"
        shutil.copytree(tmp_path / "bin", out)
        binarize.main([str(out), *arguments[1:], "--levels", "1"])
        former = {name: (out / name).read_bytes() for name in phrase_files(out)}
        used = shutil.disk_usage(out).used // 1024
        for kib, name in ((used + 20, ""), (used + 150, "/train.en-de.en.phrases.bin")):
            disk.resize(kib)
            with pytest.raises(UsageError, match=f"^{out}{name}: cannot be written: No space left on device; free"):
                binarize.main([str(out), *arguments[1:], "--workers", "1"])
            assert {name: (out / name).read_bytes() for name in phrase_files(out)} == former
            assert not left_over(out)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_killed_run_leaves_no_index_and_no_process_and_can_be_repeated(tmp_path):
    arguments = write(tmp_path, {"train": LINES["train"][:1] * 30000})
    process = multiprocessing.get_context("fork").Process(target=binarize.main, args=([*arguments, "--workers", "2"],))
    process.start()
    assert process.pid is not None
    part = tmp_path / f"bin/.train.en-de.en.phrases.bin.{process.pid}.part"
    wait_for(lambda: part.exists() and part.stat().st_size > 0)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(workers) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert phrase_files(tmp_path / "bin") == [part.name]
    wait_for(lambda: not any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers))
    write(tmp_path, {"train": LINES["train"]})
    binarize.main(arguments)
    assert len(load(tmp_path / "bin", "train")) == 5 and not part.exists()


def test_results_are_in_order_and_pieces_are_read_little_ahead():
    pieces = iter(range(100))
    results = map_in_order(abs, pieces, 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    ahead = next(pieces)
    assert ahead < 20 and list(results) == [number for number in range(3, 100) if number != ahead]
