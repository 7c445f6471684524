"""Data preparation: checks of parallel text, tokenisation, and both prepare scripts with resume and bad input."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest

from corpora.text import parallel
from corpora.tokens import moses_tokenize
from corpora.toy import grammar as toy_grammar
from support.paths import DATA_PREP, SHARED

MULTI30K = SHARED / "multi30k"
needs_multi30k = pytest.mark.skipif(not MULTI30K.is_dir(), reason="no ../shared/data/multi30k here")
NAMES = {"train": "train", "val": "valid", "test_2016_flickr": "test"}


def call(*command: object, **environment: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if name not in ("MULTI30K_DIR", "MULTI30K_URL")}
    clean |= {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([str(part) for part in command], env=clean, capture_output=True, text=True, timeout=300)


def toy(out: Path, *options: str) -> subprocess.CompletedProcess:
    sizes = ["--train", "200", "--valid", "40", "--test", "30", "--bpe", "60", "--workers", "1"]
    return call("bash", DATA_PREP / "prepare_toy.sh", out, *sizes, *options)


def multi30k(out: Path, *options: object, **environment: str) -> subprocess.CompletedProcess:
    return call("bash", DATA_PREP / "prepare_multi30k.sh", out, "--workers", "1", *options, **environment)


def pair(*arguments: object) -> subprocess.CompletedProcess:
    return call(sys.executable, "-m", "corpora.text.parallel", "pair", *arguments)


def assert_refused(done: subprocess.CompletedProcess, *parts: str) -> None:
    """Non-zero exit and one line on stderr that has all the parts."""
    assert done.returncode != 0, done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but fairseq's log, which has times in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "preprocess.log")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def sentences() -> tuple[list[str], list[str]]:
    pairs = list(islice(toy_grammar.pairs(seed=3), 400))
    return [german for german, _, _ in pairs], [english for _, english, _ in pairs]


@pytest.fixture()
def files(tmp_path, sentences) -> tuple[Path, Path]:
    for lang, lines in zip(("de", "en"), sentences, strict=True):
        (tmp_path / f"train.{lang}").write_text("".join(line + "\n" for line in lines), "utf-8")
    return tmp_path / "train.de", tmp_path / "train.en"


def replace_line(path: Path, number: int, text: bytes | None) -> None:
    """Put other bytes in place of a line (from 1), or remove it."""
    lines = path.read_bytes().split(b"\n")
    lines[number - 1 : number] = [] if text is None else [text]
    path.write_bytes(b"\n".join(lines))


# parallel.py


def test_good_pair_is_written_and_gzip_is_read(files, tmp_path, sentences):
    german, english = files
    packed = tmp_path / "packed.de.gz"
    packed.write_bytes(gzip.compress(german.read_bytes()))
    done = pair(packed, english, "--write", tmp_path / "out/a.de", tmp_path / "out/a.en", "--lowercase")
    assert done.returncode == 0 and not done.stderr
    assert (tmp_path / "out/a.de").read_text("utf-8").splitlines() == [line.lower() for line in sentences[0]]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.de", "a.en"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda de, en: de.unlink(), "train.de: cannot be read: No such file"),
        (lambda de, en: replace_line(en, 17, b""), "train.en:17: empty line"),
        (lambda de, en: replace_line(en, 18, b" \t "), "train.en:18: empty line"),
        (lambda de, en: replace_line(de, 19, b"Stra\xdfe."), "train.de:19: invalid UTF-8 at byte 5"),
        (lambda de, en: replace_line(de, 20, b"Eins\rzwei."), "train.de:20: carriage return"),
        (lambda de, en: de.write_bytes(de.read_bytes()[:-3]), "train.de:400: the last line has no newline"),
        (lambda de, en: de.write_bytes(b""), "train.de: is empty"),
        (lambda de, en: replace_line(de, 400, None), "train.en:400: misaligned: 400 lines here, 399 in"),
        (lambda de, en: replace_line(de, 250, None), "come apart between lines 101 and 300"),
    ],
    ids=["missing", "empty", "blank", "utf8", "return", "cut off", "no content", "short", "line lost"],
)  # fmt: skip
def test_bad_pair_names_file_and_line(files, tmp_path, damage, message):
    damage(*files)
    out = tmp_path / "out.de"
    out.write_text("mine\n")
    assert_refused(pair(*files, "--write", out, tmp_path / "out.en"), message)
    assert out.read_text() == "mine\n" and not (tmp_path / "out.en").exists()


def test_same_count_but_shifted_is_found(files):
    """A line lost here and one gained there: the counts agree, the lengths tell."""
    german, english = files
    replace_line(german, 101, None)
    replace_line(english, 400, None)
    assert_refused(pair(german, english), "train.en:101: misaligned with", "between lines 1 and 200")
    assert pair(german, english, "--min-correlation", "-1").returncode == 0


def test_cut_off_gzip_names_the_line(files, tmp_path):
    german, english = files
    packed = tmp_path / "cut.de.gz"
    whole = gzip.compress(german.read_bytes())
    packed.write_bytes(whole[: len(whole) // 2])
    done = pair(packed, english)
    assert_refused(done, "cut.de.gz:", "damaged or cut-off gzip file")
    assert 50 < int(done.stderr.split("cut.de.gz:")[1].split(":")[0]) < 350


def test_manifest(files, tmp_path):
    german, english = files
    rows = {path.name: f"{parallel.hashlib.sha256(path.read_bytes()).hexdigest()} 400 {path.name}\n" for path in files}
    manifest = tmp_path / "manifest"
    manifest.write_text("# comment\n" + "".join(rows.values()))
    assert pair(german, english, "--manifest", manifest).returncode == 0
    replace_line(english, 7, b"Another line.")
    assert_refused(pair(german, english, "--manifest", manifest), "train.en: wrong checksum: expected sha256")
    replace_line(english, 7, None)
    assert_refused(pair(german, english, "--manifest", manifest), "train.en:400: expected 400 lines, found 399")
    manifest.write_text(rows["train.de"])
    assert_refused(pair(german, english, "--manifest", manifest), "train.en: the manifest does not name this file")


def test_trees_must_have_the_tokens_as_leaves(tmp_path):
    tokens, trees = tmp_path / "x.en", tmp_path / "x.tree"
    tokens.write_text("the dog sleeps .\na cat .\n")
    trees.write_text("(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))\n(NP (DT a) (NN cat) (. .))\n")
    assert parallel.check_trees(tokens, trees) == 2
    trees.write_text("(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))\n(NP (DT a) (. .))\n")
    assert_refused(
        call(sys.executable, "-m", "corpora.text.parallel", "trees", tokens, trees), "x.tree:2:", "2 leaves, 3 tokens"
    )


@needs_multi30k
def test_alignment_check_is_robust_on_multi30k():
    """No block of real data comes near the limit; shifted by one line, the first block tells."""
    one, two = (parallel.read_lines(MULTI30K / f"train.{lang}.gz") for lang in ("de", "en"))
    assert parallel.misaligned_at(one, two, minimum=0.75) is None
    assert parallel.misaligned_at(one[1:], two) == 1
    assert parallel.misaligned_at(one[:5000] + one[5001:], two) == 5001


# moses_tokenize.py


def test_tokenizer_settings():
    assert moses_tokenize.Tokenizer("en")("He doesn't like “rock & roll”.") == (
        "He doesn &apos;t like &quot; rock &amp; roll . &quot;"
    )
    assert moses_tokenize.Tokenizer("de", lowercase=True)("Ein rot-weißer Ball, z.B.") == "ein rot-weißer ball , z.b."
    assert moses_tokenize.Tokenizer("de", aggressive_dash_splits=True)("rot-weiß") == "rot @-@ weiß"


def test_tokenizer_keeps_line_order_with_several_processes(tmp_path, sentences):
    source = tmp_path / "in"
    source.write_text("".join(f"Zeile {number}: {line}\n" for number, line in enumerate(sentences[0] * 4)), "utf-8")
    for workers in (1, 3):
        moses_tokenize.tokenize_file(source, tmp_path / f"out{workers}", "de", False, False, workers)
    lines = (tmp_path / "out3").read_text("utf-8").splitlines()
    assert (tmp_path / "out1").read_bytes() == (tmp_path / "out3").read_bytes()
    assert [line.split()[1] for line in lines] == [str(number) for number in range(len(lines))]


def test_tokenizer_refuses_a_line_that_vanishes(tmp_path):
    (tmp_path / "in").write_text("Ein Satz.\n\u0001\n", "utf-8")
    done = call(
        sys.executable, "-m", "corpora.tokens.moses_tokenize", "--lang", "de", tmp_path / "in", tmp_path / "out"
    )
    assert_refused(done, "in:2: no token left")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


# prepare_toy.sh


@pytest.fixture(scope="module")
def toy_data(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("toy") / "data"
    done = toy(out)
    assert done.returncode == 0, done.stderr
    return out


def test_toy_serves_both_directions(toy_data):
    from fairseq.data import Dictionary
    from fairseq.tasks.translation import load_langpair_dataset

    folder = toy_data / "bin"
    assert (folder / "dict.de.txt").read_bytes() == (folder / "dict.en.txt").read_bytes()
    for src, tgt in (("de", "en"), ("en", "de")):
        words = Dictionary.load(str(folder / f"dict.{src}.txt"))
        data = load_langpair_dataset(
            str(folder), "test", src, words, tgt, words, combine=False, dataset_impl=None, upsample_primary=1,
            left_pad_source=True, left_pad_target=False, max_source_positions=1024, max_target_positions=1024,
        )  # fmt: skip
        for side, lang in (("source", src), ("target", tgt)):
            lines = [words.string(data[index][side], bpe_symbol="@@ ") for index in range(len(data))]
            assert lines == (toy_data / "tok" / f"test.{lang}").read_text("utf-8").splitlines()


def test_toy_layout(toy_data):
    for split, count in (("train", 200), ("valid", 40), ("test", 30)):
        for folder in ("raw", "tok", "bpe"):
            for lang in ("de", "en"):
                assert len((toy_data / folder / f"{split}.{lang}").read_text("utf-8").splitlines()) == count
        assert parallel.check_trees(toy_data / "tok" / f"{split}.en", toy_data / "raw" / f"{split}.en.tree") == count
    assert "@@ " in (toy_data / "bpe/train.de").read_text("utf-8")
    assert len((toy_data / "bpe/codes").read_text("utf-8").splitlines()) == 61  # header and merges
    assert not list(toy_data.glob("*.part"))


def test_second_run_changes_nothing_and_is_quick(toy_data):
    before = {path: path.stat().st_mtime_ns for path in toy_data.rglob("*") if path.is_file() and path.name != ".lock"}
    begin = time.perf_counter()
    assert toy(toy_data).returncode == 0
    assert time.perf_counter() - begin < 2
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_other_options_for_the_same_folder_are_refused(toy_data):
    before = contents(toy_data)
    assert_refused(toy(toy_data, "--bpe", "70"), "bpe=60", "bpe=70", "give another folder")
    assert contents(toy_data) == before


def test_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    assert_refused(toy(tmp_path), "was not made by this script")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bpe", "many"], "--bpe needs a number"),
        (["--bpe"], "--bpe needs a value"),
        (["--sed", "1"], "unknown option --sed"),
    ],
)
def test_bad_options(tmp_path, options, message):
    assert_refused(call("bash", DATA_PREP / "prepare_toy.sh", tmp_path / "out", *options), message)
    assert not (tmp_path / "out").exists()


def test_missing_python(tmp_path):
    done = call("bash", DATA_PREP / "prepare_toy.sh", tmp_path / "out", PYTHON="/nowhere/python")
    assert_refused(done, "no Python at '/nowhere/python'")


def test_killed_run_continues_to_the_same_data(toy_data, tmp_path):
    """Kill the script and its children inside the tokenisation; the second run makes what an undisturbed one makes."""
    out = tmp_path / "data"
    sizes = ["--train", "200", "--valid", "40", "--test", "30", "--bpe", "60", "--workers", "1"]
    process = subprocess.Popen(
        ["bash", str(DATA_PREP / "prepare_toy.sh"), str(out), *sizes], start_new_session=True,
        env={**os.environ, "PYTHON": sys.executable}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (out / "tok.part").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (out / "raw").is_dir() and (out / "tok.part").is_dir() and not (out / "tok").exists()
    raw = {path: path.stat().st_mtime_ns for path in (out / "raw").iterdir()}
    assert toy(out).returncode == 0
    assert raw == {path: path.stat().st_mtime_ns for path in raw}
    assert contents(out) == contents(toy_data)


# prepare_multi30k.sh


@pytest.fixture(scope="module")
def small_multi30k(tmp_path_factory) -> Path:
    """The first lines of the real data, in the layout of the release."""
    if not MULTI30K.is_dir():
        pytest.skip("no ../shared/data/multi30k here")
    folder = tmp_path_factory.mktemp("multi30k")
    for name, count in (("train", 500), ("val", 120), ("test_2016_flickr", 110)):
        for lang in ("de", "en"):
            lines = parallel.read_lines(MULTI30K / f"{name}.{lang}.gz")[:count]
            (folder / f"{name}.{lang}.gz").write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))
    return folder


def test_multi30k_from_a_local_folder(small_multi30k, tmp_path):
    options = ["--local", small_multi30k, "--no-checksums", "--lowercase", "--bpe", "300"]
    done = multi30k(tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    for name, split in NAMES.items():
        original = parallel.read_lines(small_multi30k / f"{name}.de.gz")
        assert parallel.read_lines(tmp_path / f"out/raw/{split}.de") == [line.lower() for line in original]
        assert parallel.read_lines(tmp_path / f"out/raw/cased/{split}.de") == original
        tokenize = moses_tokenize.Tokenizer("de", lowercase=True)
        assert parallel.read_lines(tmp_path / f"out/tok/{split}.de") == [tokenize(line) for line in original]
        assert (tmp_path / f"out/bin/{split}.de-en.en.bin").stat().st_size > 0
    assert_refused(multi30k(tmp_path / "out", *options[:3], "--bpe", "300"), "lowercase=1", "lowercase=0")


def test_multi30k_bad_folders(small_multi30k, tmp_path):
    out = tmp_path / "out"
    assert_refused(multi30k(out, "--local", tmp_path / "none"), "no folder", "none", "--local")
    assert not out.exists()
    assert_refused(multi30k(out, "--local", small_multi30k), "train.de.gz:501: expected 29000 lines, found 500")
    assert not (out / "raw").exists() and not (out / "bin").exists()
    damaged = tmp_path / "damaged"
    shutil.copytree(small_multi30k, damaged)
    (damaged / "val.en.gz").unlink()
    done = multi30k(tmp_path / "out2", "--local", damaged, "--no-checksums")
    assert_refused(done, "val.en.gz: cannot be read: No such file")
    assert not (tmp_path / "out2/raw").exists()


def test_options_can_be_mended_until_a_step_is_complete(tmp_path, sentences):
    """After an error of the checksums one adds --no-checksums and goes on in the same folder; after a step no more."""
    for name in NAMES:
        for lang, lines in zip(("de", "en"), sentences, strict=True):
            (tmp_path / f"{name}.{lang}").write_text("".join(line + "\n" for line in lines[:200]), "utf-8")
    out, options = tmp_path / "out", ["--local", tmp_path, "--bpe", "60"]
    assert_refused(multi30k(out, *options), "expected 29000 lines")
    done = multi30k(out, *options, "--no-checksums")
    assert done.returncode == 0, done.stderr
    assert "checksums=0" in (out / "options.txt").read_text()
    assert_refused(multi30k(out, *options), "was prepared with", "checksums=0", "give another folder")


def test_multi30k_download_checks_what_it_gets(small_multi30k, tmp_path):
    """Download through a file:// address: an interrupted file is continued, a broken one refused and fetched again."""
    out, server = tmp_path / "out", tmp_path / "server"
    shutil.copytree(small_multi30k, server)
    (server / "val.de.gz").write_bytes((small_multi30k / "val.de.gz").read_bytes()[:-40])
    url = server.as_uri()
    done = multi30k(out, "--no-checksums", "--bpe", "300", MULTI30K_URL=url)
    assert_refused(done, "val.de.gz is not the whole file that it should be", "unexpected end of file")
    assert {path.name for path in (out / "download").iterdir()} == {"train.de.gz", "train.en.gz"}
    whole = (small_multi30k / "val.de.gz").read_bytes()
    (server / "val.de.gz").write_bytes(whole)
    (out / "download/val.de.gz.part").write_bytes(whole[:500])  # as a killed download leaves it
    begun = (out / "download/train.de.gz").stat().st_mtime_ns
    done = multi30k(out, "--no-checksums", "--bpe", "300", MULTI30K_URL=url)
    assert done.returncode == 0, done.stderr
    assert (out / "download/val.de.gz").read_bytes() == whole
    assert (out / "download/train.de.gz").stat().st_mtime_ns == begun
    done = multi30k(tmp_path / "none", MULTI30K_URL=(tmp_path / "nowhere").as_uri())
    assert_refused(done, "download of file:", "train.de.gz failed", "run again to continue")


@needs_multi30k
def test_manifest_fits_the_real_data():
    manifest = parallel.read_manifest(DATA_PREP / "multi30k.manifest")
    assert len(manifest) == 6
    for name in NAMES:
        one, two = parallel.check_pair(MULTI30K / f"{name}.de.gz", MULTI30K / f"{name}.en.gz", manifest)
        assert len(one) == len(two)
