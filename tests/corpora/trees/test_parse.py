"""Trees from stanza: a small tagger and parser are trained, and parse lines of tokens, for real; nothing stands in."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from corpora.errors import DataError
from corpora.sources import probing
from corpora.toy import grammar as toy_grammar
from corpora.trees import leaves, parse, parser_stanza, parser_training, train_parser, treebank, word_vectors
from fairseq_localattn.phrases.trees import read_tree
from support.corpora.prep import DATA_PREP, assert_refused, attempt, call, kill_when, lines_of, prepare, run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("parse")]  # one trained parser serves all of this file

# Entities and brackets of every kind as the Moses tokenizer leaves them, a smiley, a hyphen that it split.
ODD = "the dog &apos;s &quot; ( a &#91; b &#93; &#124; { c } &lt; & &amp; :) well @-@ known ) &quot; ."
ODD_LEAVES = 'the dog \'s " -LRB- a -LSB- b -RSB- | -LCB- c -RCB- < & & :-RRB- well - known -RRB- " .'


@pytest.fixture(scope="module")
def trees(tmp_path_factory) -> dict[str, Path]:
    """Bracketings of the toy grammar: train, compressed and with function labels, and dev."""
    folder = tmp_path_factory.mktemp("trees")
    toy_grammar.write(folder, 1, {"train": 250, "valid": 40, "test": 1})
    plain = {name: leaves.unescape((folder / f"{name}.en.tree").read_text("utf-8")) for name in ("train", "valid")}
    (folder / "train.gz").write_bytes(gzip.compress(plain["train"].replace("(NP ", "(NP-SBJ ").encode()))
    (folder / "dev").write_text("\n" + plain["valid"], "utf-8")
    return {"train": folder / "train.gz", "dev": folder / "dev", "text": folder / "valid.en"}


def training(trees: dict[str, Path], out: Path) -> list[str]:
    return f"--train {trees['train']} --dev {trees['dev']} --out {out} --size tiny --steps 60 --epochs 3".split()


@pytest.fixture(scope="module")
def models(trees, tmp_path_factory) -> Path:
    """Trained by the command, killed once, after the parser's first epoch."""
    out = tmp_path_factory.mktemp("parser") / "models"
    log = out / "train/parser.log"
    kill_when(
        [sys.executable, str(DATA_PREP / "train_parser.py"), *training(trees, out)],
        lambda: log.exists() and "Starting epoch 2" in log.read_text(),
    )
    assert not (out / "resources.json").exists()
    done = run(train_parser.main, *training(trees, out))
    assert done.returncode == 0, done.stderr
    # The tagger was complete when the training was killed.
    assert "parser: trained" in done.stdout and "tagger: trained" not in done.stdout
    return out


@pytest.fixture(scope="module")
def tokens(trees, tmp_path_factory) -> Path:
    """Tokenised English; line 3 is blank, line 4 has every kind of escape, line 6 one word."""
    path = tmp_path_factory.mktemp("text") / "test.en"
    lines = [" ".join(read_tree(line).words()) for line in lines_of(trees["dev"])[1:25]]
    lines[2:2] = ["", ODD, lines[0], "word"]
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def parsed(models, tokens, tmp_path_factory) -> Path:
    """The trees of `tokens`, in small blocks."""
    out = tmp_path_factory.mktemp("parsed") / "test.en.tree"
    done = parse_here("--models", models, "--batch", 1, tokens, out)
    assert done.returncode == 0, done.stderr
    assert f"test.en.tree: {len(lines_of(tokens))} sentences, 1 blank, 0 failed; " in done.stdout
    return out


def parse_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run(parse.main, "--lang", "en", "--cpu", *arguments)


def test_trained_models_are_good_for_what_they_are(models):
    scores = json.loads((models / "scores.json").read_text())["dev"]
    assert scores["sentences"] == 40 and scores["tags"] > 0.6 and scores["f1"] > 0.5, scores


def test_killed_training_went_on_after_its_last_epoch(models, tmp_path):
    """A checkpoint that was cut off is dropped."""
    started = re.findall(r"Starting epoch (\d)", (models / "train/parser.log").read_text())
    assert started == ["1", "2", "2", "3"]
    whole, broken = models / "en/pos/trained.pt", tmp_path / "checkpoint.pt"
    broken.write_bytes(whole.read_bytes()[:500])
    for path in (broken, broken, whole):
        parser_training._drop_broken(path)
    assert whole.exists() and not broken.exists()


def test_second_run_trains_nothing_and_other_options_are_refused(models, trees):
    before = {path: path.stat().st_mtime_ns for path in models.rglob("trained.pt")}
    done = run(train_parser.main, *training(trees, models))
    assert done.returncode == 0 and "dev: " in done.stdout and "trained" not in done.stdout
    assert before == {path: path.stat().st_mtime_ns for path in before} and len(before) == 3
    done = run(train_parser.main, *training(trees, models), "--seed", "2")
    assert_refused(done, "was begun with other files or options", "--out")
    done = run(train_parser.main, *training(trees, models), "--test", models / "none")
    assert_refused(done, f"{models}/none: cannot be read: no such file")


def test_files_of_one_name_have_a_checksum_each(trees, tmp_path):
    """A change of either is another training."""
    texts = [tmp_path / name / "text" for name in ("a", "b")]
    for text in texts:
        text.parent.mkdir()
        text.write_text("text")
    size = {"size": "tiny", "lang": "en", "epochs": 1, "steps": 1, "max_words": 9, "seed": 1}
    args = argparse.Namespace(train=trees["train"], dev=trees["dev"], text=texts, **size)
    before = train_parser._settings(args)
    texts[0].write_text("changed")
    assert train_parser._settings(args) != before


def test_treebank_is_cleaned(tmp_path):
    path, first = tmp_path / "trees", "(ROOT (S (NP-SBJ=2 (-NONE- *)) (VP-PRD (VB Go) (-LRB- -LRB-))))"
    path.write_text(f"\n{first}\n(NP (NN word))\n( (NP (NN x)))\n")
    found = [str(tree) for tree in treebank.read_treebank(path)]
    assert found == ["(ROOT (S (VP (VB Go) (-LRB- -LRB-))))", "(ROOT (NP (NN word)))", "(ROOT (NP (NN x)))"]
    rows = list(treebank.to_conllu(treebank.read_treebank(path)))
    assert rows[0].split("\t")[:5] == ["1", "Go", "_", "VB", "VB"] and rows[1].split("\t")[1] == "("


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"(ROOT (NP (NN a)))\n\n(ROOT (NP (NN a))\n", "trees:3: Found an unfinished tree"),
        (b"(ROOT (NP (NN a)))\n(ROOT (NP (NN a))))\n", "trees:2: Found a broken tree"),
        (b"(ROOT (NP (NN a)))\n(ROOT (NP (NN \xff)))\n", "trees:2: invalid UTF-8"),
        (b"\n", "trees: no tree in it"),
        (b"(A " * 5000 + b"(B c)" + b")" * 5000, "trees: a tree of more than"),
        (b"(ROOT (NN a))\n(ROOT (S (-NONE- *)))\n", "trees: tree 2 has no words"),
        (None, "trees: cannot be read: No such file"),
    ],
)
def test_broken_treebank_is_an_error_with_its_line(tmp_path, content, message):
    if content is not None:
        (tmp_path / "trees").write_bytes(content)
    with pytest.raises(DataError) as error:
        treebank.read_treebank(tmp_path / "trees")
    assert message in str(error.value)


def test_bracket_f1_by_hand():
    """Punctuation and root do not count, and PRT is ADVP; VP is the same with and without the full stop."""
    gold, found, other, tags = treebank.tree_reader.read_trees(
        "(ROOT (S (NP (PRP He)) (VP (VBZ gives) (PRT (RP up))) (. .)))"
        "(ROOT (S (NP (PRP He)) (VP (VBZ gives) (NP (ADVP (RP up))) (. .))))"
        "(ROOT (FRAG (NP (PRP He) (VBZ gives)) (PRT (RP up)) (. .)))"
        "(ROOT (S (PRP He) (VBZ gives) (IN up) (. .)))"
    )
    assert treebank.bracket_f1([gold], [gold]) == 1
    assert treebank.bracket_f1([gold], [found]) == pytest.approx(2 * 4 / (4 + 5))
    assert treebank.bracket_f1([gold, gold], [gold, other]) == pytest.approx(2 * 5 / (8 + 7))
    assert treebank.tag_accuracy([gold], [tags]) == 0.75


def test_word_vectors_tell_contexts_apart():
    sentences = [f"{article} {noun} {verb} .".split() for article in ("the", "A") for noun in ("dog", "cat", "cow")
                 for verb in ("runs", "sleeps", "eats")]  # fmt: skip
    words, vectors = word_vectors.train_vectors(sentences, 8)
    assert "a" in words and "A" not in words and vectors.shape == (len(words), 8)
    dog, cat, runs = (vectors[words.index(word)] for word in ("dog", "cat", "runs"))
    assert torch.cosine_similarity(dog, cat, dim=0) > 0.8 > 0.5 > torch.cosine_similarity(dog, runs, dim=0)


def test_one_tree_a_line_with_the_lines_own_tokens(parsed, tokens):
    lines, found = lines_of(tokens), lines_of(parsed)
    for line, tree in zip(lines, found, strict=True):
        words = [leaves.to_leaf(leaves.unescape(word)) for word in line.split()]
        assert (read_tree(tree).words() if tree else []) == words
    assert found[2] == "" and read_tree(found[3]).words() == ODD_LEAVES.split()
    assert read_tree(found[5]).words() == ["word"]
    assert found[0] == found[4], "the same sentence in another batch"
    assert len({tree for tree in found if tree.count("(") > 5}) > 10


def test_stopped_run_continues_to_the_same_bytes(models, tokens, parsed, tmp_path, monkeypatch):
    """In the third block and in the midst of a line; the part of another parser is not taken."""
    out, blocks, parser = tmp_path / "out.tree", [], parser_stanza.Parser.__call__

    def stopped(self, lines):
        blocks.append(lines)
        if len(blocks) == 3:
            raise KeyboardInterrupt
        return parser(self, lines)

    monkeypatch.setattr(parser_stanza.Parser, "__call__", stopped)
    with pytest.raises(KeyboardInterrupt):
        parse_here("--models", models, "--batch", 1, tokens, out)
    monkeypatch.undo()
    (part,) = tmp_path.iterdir()
    with part.open("ab") as stream:
        stream.write(b"(ROOT (NP (NN cut")
    (tmp_path / "out.tree.0123456789ab.part").write_text("(OTHER x)\n" * 4)
    done = parse_here("--models", models, "--batch", 1, tokens, out)
    assert done.returncode == 0 and "out.tree: continues after line 8\n" in done.stdout, done.stderr
    assert out.read_bytes() == parsed.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["out.tree"]


def test_two_processes_give_the_same_bytes(models, tokens, parsed, tmp_path):
    options = f"--lang en --models {models} --cpu --batch 1 --workers 2".split()
    done = call(sys.executable, DATA_PREP / "parse.py", *options, tokens, tmp_path / "out.tree")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.tree").read_bytes() == parsed.read_bytes()


def test_long_sentences_fail_and_are_counted(models, tokens, tmp_path):
    done = parse_here("--models", models, "--max-words", 15, tokens, tmp_path / "out.tree")
    long = [number for number, line in enumerate(lines_of(tokens), 1) if len(line.split()) > 15]
    assert f"out.tree: 28 sentences, 1 blank, {len(long)} failed (the first in line 4); " in done.stdout
    assert [n for n, tree in enumerate(lines_of(tmp_path / "out.tree"), 1) if not tree] == [3, *long]


def test_a_sentence_that_fails_takes_no_other_with_it(models):
    """The pipeline stops at one word, and loses a leaf after another."""
    parser = parser_stanza.Parser(parser_stanza.Settings("en", models, batch=10, cpu=True))
    good, pipeline = "the dog sees a cat .", parser._pipeline
    calls: list[object] = []
    expected = parser([good])
    assert expected[0].startswith("(ROOT ")

    def failing(sentences):
        calls.append(sentences)
        if any("poison" in words for words in sentences):
            raise RuntimeError("no legal transition")
        document = pipeline(sentences)
        for words, sentence in zip(sentences, document.sentences, strict=True):
            if "loser" in words:
                sentence.constituency = pipeline([words[:-1]]).sentences[0].constituency
        return document

    parser._pipeline = failing
    assert parser([good, "a poison .", "", "a loser .", good]) == [*expected, "", "", "", *expected]
    assert parser(["", " "]) == ["", ""] and len(calls) == 5  # all together, then each alone


def test_missing_models_and_text_are_errors_of_one_line(models, tokens, tmp_path):
    for words, message in (
        (["--models", tmp_path, tokens], f"no models to parse en with in {tmp_path}: download stanza's"),
        (["--lang", "fr", "--models", models, tokens], "no models to parse fr with"),
        (["--models", models, tmp_path / "none.en"], f"{tmp_path / 'none.en'}: cannot be read: No such file"),
    ):
        assert_refused(parse_here(*words, tmp_path / "out.tree"), "data error: ", message)
    assert not list(tmp_path.iterdir())


def test_multi30k_is_parsed_by_given_models(models, tmp_path):
    """Lower-cased text is parsed as it was before: the leaves keep their case, and are the tokens otherwise."""
    toy_grammar.write(tmp_path / "corpus", 3, {"train": 60, "val": 4, "test_2016_flickr": 4})
    options = ["--local", tmp_path / "corpus", "--no-checksums", "--bpe", 60, "--lowercase"]
    done = prepare("multi30k", tmp_path / "out", *options, "--trees", "en", "--parser", models)
    assert done.returncode == 0, done.stderr
    assert "60 sentences, 0 blank, 0 failed" in done.stdout and "train.de-en.en: 60 sentences, 0 without" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out/tree").iterdir())[1:] == ["train.en.tree", "valid.en.tree"]
    words = [read_tree(tree).words() for tree in lines_of(tmp_path / "out/tree/train.en.tree")]
    tokens = [leaves.unescape(line) for line in lines_of(tmp_path / "out/tok/train.en")]
    assert [" ".join(line).lower() for line in words] == tokens and all(line[0][0].isupper() for line in words)


def test_raw_text_becomes_the_trees_of_the_probing_tasks(models, tmp_path):
    sizes, out = {"train": 40, "valid": 8, "test": 8}, tmp_path / "out"
    toy_grammar.write(tmp_path / "text", 4, sizes)
    files = [word for split in sizes for word in (f"--{split}", tmp_path / f"text/{split}.en")]
    assert_refused(prepare("parse_text", out, *files[:4]), "--test is missing: give the text of all three splits")
    refused = prepare("parse_text", out, *files, "--parser", tmp_path / "none")
    assert_refused(refused, "no such folder; train models with")
    done = prepare("parse_text", out, *files, "--parser", models)
    assert done.returncode == 0 and done.stdout.endswith(f"ready: {out}/trees\n"), done.stderr
    for split, count in sizes.items():
        found = [" ".join(read_tree(tree).words()) for tree in lines_of(out / f"trees/{split}.mrg")]
        assert found == [leaves.unescape(line) for line in lines_of(out / f"tok/{split}.en")] and len(found) == count
    done = attempt(probing.prepare, {split: out / f"trees/{split}.mrg" for split in sizes}, tmp_path, "en")
    assert "train: 40 sentences; with a label" in done.stdout


@pytest.mark.parametrize(("door", "words"), [(parse, "--lang en a b"), (train_parser, "--train a --dev a --out b")])
def test_missing_stanza_is_said_in_one_line(door, words, monkeypatch):
    monkeypatch.setitem(sys.modules, "stanza", None)
    assert_refused(run(door.main, *words.split()), "stanza is missing: pip install 'fairseq_localattn[parse]'\n")
