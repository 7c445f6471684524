"""Raw text in, raw text out: a line for each line, whatever it is."""

from __future__ import annotations

import fcntl
import io
import math
import os
import random
import re
import select
import signal
import subprocess
import sys
import threading
import urllib.request
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from fairseq.data import encoders
from subword_nmt.learn_bpe import learn_bpe

from fairseq_localattn.errors import UsageError
from fairseq_localattn.inference import Options, Translator, load, search
from fairseq_localattn.inference.text import Text, text_of
from fairseq_localattn.inference.translate import lines_of, main, meanings, parser
from support.inference.models import random_model, write_checkpoint
from support.paths import ROOT

PAGE = (ROOT / "docs" / "inference.md").read_text("utf-8")
LINES = ["A dog's bone -- isn't “it” nice?", "x-ray & <b> 3.5%  ", "", "Über größere Hunde, z.B. „Dackel“!"]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    model, args = random_model("transformer_mma_tiny")
    args.max_source_positions = 30
    path = write_checkpoint(tmp_path_factory.mktemp("translator"), model, args)
    return Translator(load(path), Text(), Options(beam=2, nbest=1, max_len_b=6), max_tokens=200)


def test_every_flag_is_explained() -> None:
    assert all(action.help for action in parser()._actions)
    assert meanings()["sampling_topk"] == "draw from so many most probable words; -1: from all"


@pytest.mark.parametrize("kind", ["moses", "subword_nmt", "sentencepiece"])
def test_text_is_processed_as_by_fairseq(kind: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\n".join(LINES * 9))
    options: dict[str, Any] = {"source_lang": "en", "target_lang": "de", "tokenizer": None, "bpe": kind}
    if kind == "moses":
        options |= {"tokenizer": kind, "bpe": None, "moses_no_dash_splits": False, "moses_no_escape": False}
    elif kind == "subword_nmt":
        options |= {"bpe_codes": str(tmp_path / "codes"), "bpe_separator": "@@"}
        with open(text) as lines, open(tmp_path / "codes", "w") as codes:
            learn_bpe(lines, codes, 20)
    else:
        options["sentencepiece_model"] = str(tmp_path / "pieces.model")
        options |= {"sentencepiece_enable_sampling": False, "sentencepiece_alpha": None}
        prefix = str(tmp_path / "pieces")
        sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=prefix, vocab_size=46, minloglevel=2)
    ours = text_of(options)
    build = encoders.build_tokenizer if kind == "moses" else encoders.build_bpe
    theirs = build(Namespace(**options))
    for line in LINES:
        words = theirs.encode(line)
        assert ours.words(line) == words.split()
        assert ours.line(words.split()) == theirs.decode(words)
    if kind == "moses":
        del options["moses_no_dash_splits"]
        assert text_of(options, ["ray", "@-@</w>"]).words("x-ray") == ["x", "@-@", "ray"]
        assert text_of(options, ["ray", "-</w>"]).words("x-ray") == ["x-ray"]
    low, kept = text_of(options, ["@-@", "é"]), text_of({**options, "lowercase": False}, ["@-@", "é"])
    for line in LINES:
        words = theirs.encode(line).lower() if kind == "moses" else theirs.encode(line.lower())
        assert low.words(line) == words.split()
        assert kept.words(line) == text_of(options, ["@-@", "É"]).words(line) == ours.words(line)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bpe": "gpt2"}, "--bpe gpt2: choose from"),
        ({"bpe": "subword_nmt"}, "--bpe-codes is missing"),
        ({"bpe": "sentencepiece", "sentencepiece_model": "/nowhere/x"}, "no such file"),
        ({"bpe": "sentencepiece", "sentencepiece_model": __file__}, "is no model of SentencePiece"),
        ({"bpe": "subword_nmt", "bpe_codes": sys.executable}, "holds no codes of subword-nmt"),
        (
            {"bpe": "subword_nmt", "bpe_codes": __file__},
            f"^--bpe-codes {__file__}: holds .*line 1 is not two subwords.$",
        ),
    ],
    ids=str,
)
def test_steps_that_cannot_be_are_told_of(
    options: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=message):
        text_of(options)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("flag", [f"--seed {10**23}", "--threads 100000", f"--buffer-size {10**23}"])
def test_numbers_that_cannot_be_are_refused(flag: str) -> None:
    with pytest.raises(UsageError, match=rf"^{flag}: give [\d,]+ or less$"):
        main(["--path", "nosuch", *flag.split()])


def test_each_line_has_the_translation_that_it_has_alone(translator: Translator) -> None:
    lines = ["w3 w4 w5", "", "w9", " ".join(f"w{n}" for n in range(20)), "w3 w4 w5", "unheard w1"]
    found = translator.translate(lines)
    assert found[1] == [("", 0.0)] and found[0][0][0] == found[4][0][0]
    for line, best in zip(lines, found, strict=True):
        (alone,) = translator.translate([line])
        assert [text for text, _ in best] == [text for text, _ in alone]
        assert best[0][1] == pytest.approx(alone[0][1], abs=1e-5)
    tokens = translator.trained.source.encode(["w9"])
    (best_of_all,) = search(translator.trained.model, torch.tensor([tokens]), translator.options)
    assert found[2][0][0].split() == translator.trained.target.decode(best_of_all[0].tokens)


def test_each_line_has_as_many_translations_as_were_asked_for(translator: Translator) -> None:
    """A search that has one alone, as of the end at once, is filled up."""
    many = Translator(translator.trained, Text(), Options(beam=3, nbest=3, min_len=0, max_len_b=0))
    found = many.translate(["w1 w2", "", "w3"])
    assert [len(best) for best in found] == [3, 3, 3]
    assert found[1] == [("", 0.0), *2 * [("", -math.inf)]] and found[0][0][1] > found[0][1][1] == -math.inf


def test_one_text_is_no_list_of_lines(translator: Translator) -> None:
    with pytest.raises(TypeError, match="give a list of lines"):
        translator.best("w1 w2")


def test_a_long_line_is_told_of_and_translated_in_pieces(
    translator: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"w{n % 40}" for n in range(70)]
    (whole,) = translator.translate([" ".join(words)], first=8)
    assert "line 8: 71 tokens, and the model reads 30: it is translated in 3 pieces" in capsys.readouterr().err
    parts = translator.translate([" ".join(words[start : start + 24]) for start in (0, 24, 48)])
    assert whole[0][0] == " ".join(best[0][0] for best in parts)
    refusing = Translator(translator.trained, translator.text, translator.options, long="empty")
    assert refusing.translate([" ".join(words)]) == [[("", 0.0)]]
    assert "it is left empty" in capsys.readouterr().err
    with pytest.raises(UsageError, match="long='piece': choose from pieces, beginning, empty"):
        Translator(translator.trained, translator.text, long="piece")


def test_the_progress_bar_counts_lines(translator: Translator) -> None:
    """Empty lines and those in several pieces are one each."""
    counts: list[int] = []
    bar = Namespace(update=counts.append)
    translator.translate(["w1", "", " ".join(["w2"] * 70), "w3 w4"], bar=bar)
    assert sum(counts) == 4 and min(counts) >= 0


def test_a_line_of_another_language_is_told_of(translator: Translator, capsys: pytest.CaptureFixture[str]) -> None:
    translator.translate(["w1 w2 w3 what", "привет как дела"], first=5)
    told = [line for line in capsys.readouterr().err.splitlines() if "cut after" not in line]
    assert told == ["fairseq_localattn: line 6: 3 of 3 words are unknown to the model: is it of its language?"]


def test_a_translation_that_is_cut_is_told_of(translator: Translator, capsys: pytest.CaptureFixture[str]) -> None:
    cutting = Translator(translator.trained, Text(), Options(min_len=2, max_len_b=2))
    cutting.translate(["", "w1 w2"], first=5)
    told = "fairseq_localattn: line 6: its translation is cut after 2 words, or ends there: see --max-len-b\n"
    assert capsys.readouterr().err == told


def test_bytes_that_are_no_text_lose_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    read = list(lines_of(io.BytesIO("a\n\r\n\ufffd\n".encode() + b"b\xff\x85c\n\x0b\x0c\nd")))
    assert read == ["a", "", "\ufffd", "b\ufffd\ufffdc", "", "d"]
    assert capsys.readouterr().err.count("line ") == 1


def started(folder: Path, *more: object, temporary: Path) -> subprocess.Popen[str]:
    """Start the command in a session of its own, in which Ctrl-C works as in a terminal."""
    command = [sys.executable, "-m", "fairseq_localattn", "translate", "--path", folder, "--beam", "1", *more]
    return subprocess.Popen(
        list(map(str, command)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        cwd=temporary,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
def test_random_lines_lose_none_and_leave_nothing(translator: Translator, tmp_path: Path) -> None:
    random.seed(1)
    letters = [chr(n) for n in (*range(1, 10), *range(11, 40), 0x85, 0x2028, 0x3042, 0x1F600, 0xD7FF, 0x10FFFF)]
    kinds = (
        lambda: "",
        lambda: "".join(random.choices(letters, k=random.randrange(60))),
        lambda: " ".join(f"w{random.randrange(60)}" for _ in range(random.randrange(40))),
    )
    lines = [random.choice(kinds)() for _ in range(999)] + ["w1 " * 5000]
    (folder := tmp_path / "folder").mkdir()
    (temporary := tmp_path / "temporary").mkdir()
    path = write_checkpoint(folder, *random_model("transformer_mma_tiny"))
    before = {each: each.read_bytes() for each in folder.iterdir()}
    command = started(path, "--scores", "--max-len-b", "6", "--buffer-size", "120", temporary=temporary)
    out, err = command.communicate("".join(f"{line}\n" for line in lines))
    assert command.returncode == 0, err
    written = out.split("\n")
    assert len(written) == len(lines) + 1 and written.pop() == ""
    assert all(text.count("\t") == 1 for text in written)
    assert {each: each.read_bytes() for each in folder.iterdir()} == before
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(command.pid, 0)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_an_output_that_is_full_is_told_of_in_one_line(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, *random_model("transformer_mma_tiny"))
    command = [sys.executable, "-m", "fairseq_localattn", "translate", "--path", str(path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, input=b"w1\n", stdout=full, stderr=subprocess.PIPE, cwd=ROOT)
    said = b"fairseq_localattn: standard input or output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the size of a pipe is set")
def test_ctrl_c_leaves_whole_lines(tmp_path: Path) -> None:
    """It comes while a write waits for the reader of a full pipe."""
    path, lines = write_checkpoint(tmp_path, *random_model("transformer_mma_tiny")), 400
    (temporary := tmp_path / "temporary").mkdir()
    length = ["--min-len", "40", "--max-len-b", "40", "--max-len-a", "0", "--buffer-size", lines]
    command = started(path, *length, temporary=temporary)
    assert command.stdin is not None and command.stdout is not None
    fcntl.fcntl(command.stdout, fcntl.F_SETPIPE_SZ, 4096)
    command.stdin.write("w1\n" * (lines + 1))
    command.stdin.flush()
    select.select([command.stdout], [], [])
    command.send_signal(signal.SIGINT)
    out, err = command.communicate()
    assert command.returncode == 130
    told = [line for line in err.splitlines() if "cut after" not in line]
    assert told == ["fairseq_localattn: interrupted; the lines that are written are whole"]
    assert len(out) > 20_000 and out.endswith("\n") and len(set(out.splitlines())) == 1
    assert out.count("\n") == lines


def test_the_service_of_the_page_translates(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, *random_model("transformer_mma_tiny"))
    (code,) = (block for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S) if "do_POST" in block)
    assert len(code.splitlines()) <= 20 and '"model"' in code and "8000" in code
    names: dict[str, Any] = {}
    code = code.replace('"model"', repr(str(path))).replace("8000", "0")
    thread = threading.Thread(target=exec, args=(code, names), daemon=True)
    thread.start()
    while "server" not in names and thread.is_alive():
        thread.join(0.01)
    lines = ["w1 w2", "", "w3\u2028w4"]
    address = f"http://127.0.0.1:{names['server'].server_port}"
    with urllib.request.urlopen(address, "".join(f"{line}\n" for line in lines).encode(), timeout=60) as answer:
        assert answer.read().decode() == "".join(f"{text}\n" for text in Translator.load(path).best(lines))
    names["server"].shutdown()
    names["server"].server_close()
    thread.join()
