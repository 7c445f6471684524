"""Stages of training a parser by stanza's own trainers: word vectors, tagger, parser, installation, scores.

The file of a stage has its name only when the stage is complete.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import stanza
import torch
from stanza.models import constituency_parser, tagger
from stanza.models.common.pretrain import Pretrain, PretrainedWordVocab
from stanza.models.constituency import parser_training
from stanza.models.constituency.parse_tree import Tree

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.lines import read_lines, write_lines
from corpora.trees.treebank import bracket_f1, read_treebank, tag_accuracy, to_conllu
from corpora.trees.word_vectors import train_vectors

PACKAGE = "trained"
# Arguments of stanza's parser for every size: it learns from the tags of the treebank, in one stage, without repairs of
# wrong decisions, and accepts labels that only the development trees have.
PARSER = "--no_retag --no_multistage --oracle_level 0 --no_check_valid_states --retag_method upos"

_say = functools.partial(print, flush=True)


class Training:
    """Trains models in the folder `out`; the stages are to be called in the order of their definitions."""

    def __init__(self, out: Path, lang: str, seed: int) -> None:
        self.out, self.lang, self.seed = out, lang, seed
        self.work = out / "train"
        self.trees: dict[str, list[Tree]] = {}

    def model(self, kind: str) -> Path:
        """Return the file in which stanza looks for a model: "pretrain", "pos" or "constituency"."""
        return self.out / self.lang / kind / f"{PACKAGE}.pt"

    def read(self, train: Path, dev: Path, max_words: int | None = None) -> None:
        """Read and clean the treebanks, and write them in the formats of the trainers; raises DataError.

        max_words: longer sentences are left out of the training trees.
        """
        for name, path in (("train", train), ("dev", dev)):
            trees = read_treebank(path)
            if max_words and name == "train":
                trees = [tree for tree in trees if len(tree.leaf_labels()) <= max_words]
            self.trees[name] = trees
            write_lines(self.work / f"{name}.mrg", map(str, trees))
            write_lines(self.work / f"{name}.conllu", to_conllu(trees))
            words = sum(len(tree.leaf_labels()) for tree in trees)
            _say(f"{name}: {len(trees):,} trees, {words:,} words")

    def vectors(self, texts: Iterable[Path], dim: int) -> None:
        """Make word vectors of the training trees and of the texts."""
        if self.model("pretrain").exists():
            return
        sentences = [tree.leaf_labels() for tree in self.trees["train"]]
        for path in texts:
            sentences += [line.split() for _, line in read_lines(path, open_end=True)]
        words, vectors = train_vectors(sentences, dim, seed=self.seed)
        pretrain = Pretrain(str(self.work / "vectors.pt"), save_to_file=False)
        pretrain._vocab = PretrainedWordVocab(words)
        special = len(pretrain._vocab) - len(words)  # padding, unknown word, …
        pretrain._emb = torch.cat([torch.zeros(special, dim), vectors])
        with _logged(self.work / "vectors.log"):
            pretrain.save(pretrain.filename)
        _move(self.work / "vectors.pt", self.model("pretrain"))
        _say(f"word vectors: {len(words):,} words of {len(sentences):,} sentences")

    def tagger(self, options: Sequence[str], steps: int) -> None:
        """Train the tagger of parts of speech."""
        if self.model("pos").exists():
            return
        best = self.work / "tagger.pt"
        best.unlink(missing_ok=True)
        with _logged(self.work / "tagger.log", _tagger_bar(steps)):
            tagger.main([
                *self._common("conllu", best), *options, "--max_steps", str(steps), "--no_second_optim",
                "--max_steps_before_stop", str(steps), "--eval_interval", str(max(1, steps // 6)),
                "--fix_eval_interval", "--log_step", "10",
            ])  # fmt: skip
        _move(best, self.model("pos"))
        _say("tagger: trained")

    def parser(self, options: Sequence[str]) -> None:
        """Train the parser; a killed training continues after its last epoch."""
        if self.model("constituency").exists():
            return
        best = self.work / "parser.pt"
        checkpoint = self.work / "parser_checkpoint.pt"
        _drop_broken(checkpoint)
        arguments = [
            *self._common("mrg", best), *PARSER.split(), "--epoch_size", "0", *options,
            "--checkpoint_save_name", str(checkpoint),
        ]  # fmt: skip
        epochs = int(arguments[len(arguments) - arguments[::-1].index("--epochs")])
        parser_training.EvaluateParser = _Evaluator
        parser_training.tqdm = lambda batches, postfix="", **_: progress(
            batches, f"parser: {postfix} of {epochs}", "batches"
        )
        with _logged(self.work / "parser.log"):
            constituency_parser.main(arguments)
        _move(best, self.model("constituency"))
        _say("parser: trained")

    def install(self) -> None:
        """Write resources.json, by which stanza's pipeline finds the models."""
        kinds = ("tokenize", "pos", "constituency")
        needs = {"dependencies": [{"model": "pretrain", "package": PACKAGE}]}
        entry = {
            "packages": {"default": {kind: PACKAGE for kind in kinds}},
            "tokenize": {PACKAGE: {}}, "pretrain": {PACKAGE: {}},
            "pos": {PACKAGE: needs}, "constituency": {PACKAGE: needs},
        }  # fmt: skip
        write_lines(self.out / "resources.json", [json.dumps({self.lang: entry}, indent=1)])

    def score(self, files: dict[str, Path]) -> None:
        """Parse the words of treebanks with the installed pipeline; print and write the scores."""
        path = self.out / "scores.json"
        scores = json.loads(path.read_text("utf-8")) if path.exists() else {}
        for name, file in files.items():
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            if scores.get(name, {}).get("sha256") != digest:
                with _logged(self.work / "score.log"):
                    scores[name] = self._score(read_treebank(file)) | {"sha256": digest}
                write_lines(path, [json.dumps(scores, indent=1)])
            tags, f1, speed = (scores[name][key] for key in ("tags", "f1", "sentences_per_second"))
            _say(f"{name}: {100 * tags:.2f} % of the tags, F1 of the brackets {100 * f1:.2f}; {speed} sentences/s")

    def _score(self, gold: list[Tree]) -> dict[str, Any]:
        pipeline = stanza.Pipeline(
            self.lang, dir=str(self.out), processors="tokenize,pos,constituency", tokenize_pretokenized=True,
            download_method=None,
        )  # fmt: skip
        begin = time.monotonic()
        document = pipeline([tree.leaf_labels() for tree in gold])
        speed = round(len(gold) / (time.monotonic() - begin))
        found = [sentence.constituency for sentence in document.sentences]
        return {
            "tags": tag_accuracy(gold, found), "f1": bracket_f1(gold, found), "sentences": len(gold),
            "sentences_per_second": speed,
        }  # fmt: skip

    def _common(self, ending: str, best: Path) -> list[str]:
        """Return the arguments that stanza's two trainers share; the best model is saved as `best`."""
        return [
            "--mode", "train", "--lang", self.lang, "--shorthand", f"{self.lang}_{PACKAGE}", "--seed", str(self.seed),
            "--train_file", str(self.work / f"train.{ending}"), "--eval_file", str(self.work / f"dev.{ending}"),
            "--wordvec_pretrain_file", str(self.model("pretrain")),
            "--save_dir", str(best.parent), "--save_name", best.name,
        ]  # fmt: skip


def _tagger_bar(steps: int) -> Callable[[str], None]:
    """Return what shows the steps of stanza's tagger, which it reports in its log."""
    bar = progress(None, "tagger", "steps", total=steps)

    def show(message: str) -> None:
        if found := re.search(r"Finished STEP (\d+)/", message):
            bar.update(int(found[1]) - bar.n)

    return show


class _Evaluator(contextlib.nullcontext):
    """Scores the development trees; replaces stanza's evaluator, which starts Java."""

    def __init__(self, **_: object) -> None:
        super().__init__(self)

    def process(self, results: Sequence[Any]) -> SimpleNamespace:
        f1 = bracket_f1([result.gold for result in results], [result.predictions[0].tree for result in results])
        return SimpleNamespace(f1=f1, kbestF1=None, treeF1=None, HasField=lambda _: False)


class _Shown(logging.Handler):
    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())


@contextlib.contextmanager
def _logged(path: Path, show: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Write stanza's log to a file instead of the terminal, and hand its messages to `show`."""
    logger, file = logging.getLogger("stanza"), logging.FileHandler(path, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [file, _Shown(show)], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])
        file.close()


def _drop_broken(checkpoint: Path) -> None:
    """Remove a checkpoint that was cut off while it was written; the training then begins again."""
    try:
        torch.load(checkpoint, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        pass
    except Exception:  # of any type, for a damaged file
        checkpoint.unlink()


def _move(path: Path, target: Path) -> None:
    if not path.exists():
        raise DataError(f"{path}: stanza saved no model; see the logs in its folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)
