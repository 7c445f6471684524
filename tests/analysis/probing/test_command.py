"""Probing (Table 5 of Hao et al. 2019): preparation, the vectors that are read, and the command from data to row."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY

from corpora.sources import probing as preparation
from fairseq_localattn.analysis.probing import command as probing
from fairseq_localattn.analysis.probing import models as probing_models
from fairseq_localattn.analysis.probing import probe as probing_probe
from fairseq_localattn.analysis.probing.data import ProbingData, batches
from fairseq_localattn.analysis.probing.labels import TASKS
from fairseq_localattn.analysis.probing.models import vectors_of
from fairseq_localattn.analysis.probing.report import read_rows
from fairseq_localattn.analysis.probing.train import Trainer
from fairseq_localattn.errors import UsageError
from fairseq_localattn.progress import ProgressBar
from support.corpora.prep import SPLITS, assert_refused, attempt, change_line, lines_of, prepare
from support.models import parse
from support.probing_trees import make_trees

pytestmark = pytest.mark.slow  # the preparation, which serves all of these tests


@pytest.fixture(scope="module")
def treebank(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("treebank")
    for number, (split, count) in enumerate(zip(SPLITS, (120, 30, 40), strict=True)):
        trees = make_trees(count, number)
        trees.insert(3, "")  # without a tree
        (folder / f"{split}.mrg").write_text("".join(tree + "\n" for tree in trees), "utf-8")
    return folder


def given(folder: Path) -> list[object]:
    return [word for split in SPLITS for word in (f"--{split}", folder / f"{split}.mrg")]


@pytest.fixture(scope="module")
def prepared(treebank, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("probing") / "out"
    done = prepare("probing", out, *given(treebank), "--bpe", 30, "--escape")
    assert done.returncode == 0, done.stderr
    assert "train: 122 sentences; with a label: voice 121, tense 120, tss 121, spc 122, pos 122" in done.stdout
    assert "; blank lines: 1\n" in done.stdout and "words differ" not in done.stdout
    assert done.stdout.endswith(f"ready: {out}/bin\n")
    return out


def test_prepared_text_and_labels(prepared):
    text = lines_of(prepared / "raw/test.en")
    assert text[-1] == "Go &quot; A&amp;B &quot;" and text[-2] == "mountain" and len(text) == 42
    labels = [lines_of(prepared / f"bin/test.{task}.labels")[-2:] for task in TASKS]
    assert labels == [["", "active"], ["", ""], ["", "VP_NP"], ["NP", "VP S NP S"], ["NN", "VB `` NN ''"]]
    words = [list(map(int, line.split())) for line in lines_of(prepared / "bin/test.words")]
    pieces = [line.split() for line in lines_of(prepared / "bpe/test.en")]
    assert [sum(counts) for counts in words] == [len(line) for line in pieces]
    assert [len(counts) for counts in words] == [len(sentence.split()) for sentence in text]
    assert any(max(counts) > 1 for counts in words), "some word is split"


def test_mistakes_of_the_preparation_are_told(prepared, treebank, tmp_path):
    out = tmp_path / "out"
    assert_refused(prepare("probing", out, *given(treebank), "--codes", "x"), "--codes and --dict belong together")
    (tmp_path / "dict.txt").write_text("Go 5\n&quot; 3\n")
    words = ["--codes", prepared / "bpe/codes", "--dict", tmp_path / "dict.txt"]
    assert_refused(prepare("probing", out, *given(treebank), *words), "has Moses' entities", "give --escape")


def test_bad_trees_are_told_with_their_line(tmp_path):
    (tmp_path / "train.mrg").write_text("(NN a)\n(S (NP (NN <s>)))\n")
    done = attempt(preparation.prepare, {"train": tmp_path / "train.mrg"}, tmp_path, "en")
    assert_refused(done, "data error: ", "train.mrg:2: the word <s> is a symbol of fairseq's")
    assert not list(tmp_path.glob("*.labels*"))


def test_words_are_read_at_their_last_subword_and_sentences_as_means(prepared):
    """With a stand-in encoder that returns the tokens as its states, which shows the positions that are read."""
    data = ProbingData(prepared / "bin")
    sentences = data.sentences("test", 100, phrases=True)

    class Echo(torch.nn.Module):
        def forward(self, tokens, src_lengths, src_phrases):
            assert src_phrases.shape[:2] == (len(tokens), 3) and bool((src_phrases.sum(2).T == src_lengths).all())
            return {"encoder_out": [tokens.T[..., None].double()]}

    echo = Echo()
    more: Any = {"device": torch.device("cpu"), "on_progress": lambda *_: None}
    vectors = vectors_of(echo, sentences, data.dictionary, 60, words=True, **more)
    for number, ends in enumerate(sentences.word_ends):
        tokens = sentences.tokens[number].double()
        assert torch.equal(vectors.words[vectors.words_of([number])][:, 0], tokens[ends])
        assert float(vectors.sentences[number]) == pytest.approx(float(tokens.mean()))
    without = vectors_of(echo, sentences, data.dictionary, 60, words=False, **more)
    assert len(without.words) == 0 and torch.equal(without.sentences, vectors.sentences)


def test_batches_hold_each_sentence_once_and_follow_from_the_generator(prepared):
    data = ProbingData(prepared / "bin")
    sentences = data.sentences("train", 100, phrases=False)
    found = []
    for generator in (None, torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)):
        made = list(batches(sentences, range(1, 120, 2), data.dictionary, 60, generator=generator))
        assert sorted(row for batch in made for row in batch.rows) == list(range(60))
        assert all(batch.tokens.numel() <= 60 for batch in made)
        found.append([batch.rows for batch in made])
    assert found[0] != found[1] == found[2]


@pytest.fixture
def command(prepared, tmp_path):
    """Return a function that runs the command in this process and returns the rows of its file."""

    def run(*words: object, data: Path = prepared / "bin", out: Path = tmp_path / "rows.csv") -> list[dict[str, str]]:
        probing.main([str(word) for word in (data, "--out", out, "--cpu", *words)])
        return read_rows(out)

    return run


SCRATCH = ["--arch", "transformer_localattn_tiny", "--encoder-layers", 1, "--dropout", 0, "--epochs", 3, "--warmup", 10]
QUICK = ["--max-tokens", 200, "--lr", 0.01]


def test_from_scratch_learns_and_adds_rows(command, prepared, tmp_path, capsys):
    rows = command(*SCRATCH, *QUICK, "--tasks", "tense,pos", "--name", "mine")
    tense, pos = rows
    wanted = {"task": "tense", "training": "scratch", "name": "mine", "classes": "2"}
    assert tense.items() >= (wanted | {"total": "40", "left_out": "6", "train_sentences": "120"}).items()
    for row in rows:
        assert float(row["accuracy"]) > float(row["majority"]) + 20
        assert float(row["low"]) < float(row["accuracy"]) <= float(row["high"])
        assert int(row["correct"]) / int(row["total"]) == pytest.approx(float(row["accuracy"]) / 100, abs=1e-4)
    assert int(pos["total"]) == sum(len(line.split()) for line in lines_of(prepared / "raw/test.en"))
    assert "mine, tense, seed 1: accuracy" in capsys.readouterr().out
    again = command(*SCRATCH, *QUICK, "--tasks", "tense,pos")
    assert again == rows and "rows.csv has its row" in capsys.readouterr().out
    assert not (tmp_path / "rows.csv.parts").exists()


def test_new_encoders_with_phrases(command):
    """Phrases that are n-grams, and phrases of trees from the binarised data."""
    more = ["--tasks", "tss", "--epochs", 1, "--max-tokens", 400]
    plain = command("--arch", "transformer_localattn_tiny", *more)
    grams = command("--arch", "transformer_mgsa_ngram_tiny", *more)[-1]
    trees = command("--arch", "transformer_mgsa_tiny", "--mgsa-interaction", "none", *more)[-1]
    assert plain[0]["architecture"] == "transformer_localattn_tiny" and len({grams["settings"], trees["settings"]}) == 2
    assert int(plain[0]["parameters"]) < int(trees["parameters"]) == int(grams["parameters"])


@pytest.fixture(scope="module")
def trained(prepared, tmp_path_factory) -> tuple[Path, Path]:
    """Return a checkpoint of a translation model as fairseq saves it, and the folder of its dictionaries."""
    folder = tmp_path_factory.mktemp("trained")
    words = prepared / "bin/dict.en.txt"
    for lang in ("en", "xx"):
        shutil.copy(words, folder / f"dict.{lang}.txt")
    args = parse("transformer_localattn_tiny", ["--source-lang", "en", "--target-lang", "xx"])
    names = Dictionary.load(str(words))
    torch.manual_seed(3)
    task = SimpleNamespace(source_dictionary=names, target_dictionary=names)
    model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
    more = {"optimizer_history": [{"best_loss": 1.0}], "extra_state": {}}
    torch.save({"args": args, "model": model.state_dict(), **more}, folder / "model.pt")
    return folder / "model.pt", folder


def test_trained_encoder_is_frozen_and_read_once(command, trained, monkeypatch):
    checkpoint, folder = trained
    read: dict[str, Any] = {}

    def record(encoder, sentences, *args, **kwargs):
        assert read.setdefault(sentences.split, encoder) is encoder
        return vectors_of(encoder, sentences, *args, **kwargs)

    monkeypatch.setattr(probing_probe, "vectors_of", record)
    more = ["--encoder", checkpoint, "--encoder-data", folder, "--epochs", 8, "--max-tokens", 32, "--lr", 0.01]
    rows = command(*more, "--tasks", "all")
    assert [row["task"] for row in rows] == list(TASKS) and list(read) == ["train", "valid", "test"]
    assert {row["training"] for row in rows} == {"pre-trained"}
    before = torch.load(checkpoint, weights_only=False)["model"]
    for name, value in read["train"].state_dict().items():
        assert torch.equal(value, before[f"encoder.{name}"])
    by_task = {row["task"]: row for row in rows}
    for task in ("tense", "pos"):  # which random states of the words still tell
        assert float(by_task[task]["accuracy"]) > float(by_task[task]["majority"]) + 15


def test_killed_training_ends_as_if_it_had_not_been(command, trained, tmp_path, monkeypatch):
    """Stopped after its second epoch of three: an equal row, with dropout; a damaged state is told."""
    more = [*SCRATCH, *QUICK, "--dropout", 0.1, "--tasks", "tense"]
    whole = command(*more, out=tmp_path / "whole.csv")[0]
    save = Trainer._save

    def save_and_stop(self):
        save(self)
        if self.epoch == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "_save", save_and_stop)
        command(*more, out=tmp_path / "killed.csv")
    assert not (tmp_path / "killed.csv").exists()
    (state,) = (tmp_path / "killed.csv.parts").iterdir()
    whole_state = state.read_bytes()
    state.write_bytes(whole_state[:100])
    with pytest.raises(UsageError, match=r"\.pt: cannot be continued .*remove it, and run again"):
        command(*more, out=tmp_path / "killed.csv")
    state.write_bytes(whole_state)
    skipped: list[tuple[int, int]] = []
    monkeypatch.setattr(ProgressBar, "skip", lambda bar, items: skipped.append((items, bar.total)))
    resumed = command(*more, out=tmp_path / "killed.csv")[0]
    assert [3 * items for items, _ in skipped] == [2 * total for _, total in skipped] and skipped[0][0] > 0
    assert {**resumed, "seconds": ""} == {**whole, "seconds": ""}
    assert not (tmp_path / "killed.csv.parts").exists()


def test_balance_is_another_row(command):
    more = [*SCRATCH, *QUICK, "--tasks", "voice", "--epochs", 1]
    first = command(*more)[0]
    rows = command(*more, "--balance")
    assert [row["balanced"] for row in rows] == ["False", "True"]
    assert int(rows[1]["train_sentences"]) < int(first["train_sentences"]) and float(rows[1]["majority"]) == 50


@pytest.fixture
def copied(prepared, tmp_path) -> Path:
    return Path(shutil.copytree(prepared / "bin", tmp_path / "bin"))


@pytest.mark.parametrize(
    ("name", "line", "text", "message"),
    [
        ("test.pos.labels", 2, "NN", r"test\.pos\.labels:2: 1 labels, expected \d+, one a word, or none"),
        ("train.tense.labels", 1, "past past", r"train\.tense\.labels:1: 2 labels, expected 1, or none"),
        ("train.words", 1, "1 x", r"train\.words:1: not numbers of subwords: '1 x'"),
        ("train.words", 1, "99", r"train\.words:1: 99 subwords, the sentence has \d+"),
        ("valid.words", 32, None, r"valid\.words:32: 31 lines for 32 sentences"),
        ("valid.spc.labels", 32, None, r"valid\.spc\.labels:32: 31 lines for 32 sentences"),
    ],
)
def test_bad_data_are_told_with_file_and_line(copied, command, name, line, text, message):
    change_line(copied / name, line, text)
    with pytest.raises(UsageError, match=message):
        command(*SCRATCH, "--tasks", name.split(".")[1] if "labels" in name else "tense", data=copied)


def test_missing_files_are_told(copied, tmp_path, command):
    with pytest.raises(UsageError, match=r"no binarised train.*prepare_probing\.sh"):
        command(*SCRATCH, data=tmp_path)
    for path in copied.glob("*.phrases.*"):
        path.unlink()
    with pytest.raises(UsageError, match="no phrases there, which the encoder reads; data-prep/prepare_probing.sh"):
        command("--arch", "transformer_mgsa_tiny", data=copied)
    (copied / "valid.voice.labels").unlink()
    with pytest.raises(UsageError, match=r"valid\.voice\.labels: cannot be read: No such file"):
        command(*SCRATCH, data=copied)


def test_wrong_use_is_told(command, trained, copied, tmp_path, capsys):
    checkpoint, folder = trained
    with pytest.raises(UsageError, match="'tens' is none of voice, tense, tss, spc, pos"):
        command(*SCRATCH, "--tasks", "tens")
    for other in ("transformer_lm_diffwin_tiny", "transformer_diffwin_classifier_tiny", "lightconv_small"):
        with pytest.raises(UsageError, match=f"--arch {other}: no Transformer for translation"):
            probing_models.architecture_options(other, [])
    with pytest.raises(UsageError, match="--arch transformer_nothing: unknown"):
        command("--arch", "transformer_nothing")
    with pytest.raises(UsageError, match="there is no flag --mgsa-head; did you mean --mgsa-heads, which"):
        command("--arch", "transformer_localattn_tiny", "--mgsa-head", "word")
    with pytest.raises(UsageError, match="missing.pt: no such file"):
        command("--encoder", tmp_path / "missing.pt", "--encoder-data", folder)
    for words, said in ([], "belong together"), (["--encoder-data", folder, "--lr-x", "1"], "unknown: --lr-x 1"):
        with pytest.raises(SystemExit):
            command("--encoder", checkpoint, *words)
        assert said in capsys.readouterr().err
    symbols = lines_of(copied / "dict.en.txt")
    (copied / "dict.en.txt").write_text("".join(line + "\n" for line in symbols[::-1]))
    with pytest.raises(UsageError, match="its dictionary is not that of .*prepare it with --codes and --dict"):
        command("--encoder", checkpoint, "--encoder-data", folder, data=copied)
    (tmp_path / "foreign.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match=r"foreign\.csv:1: not the columns"):
        command(*SCRATCH, out=tmp_path / "foreign.csv")
