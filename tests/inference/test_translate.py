"""Raw text in, raw text out: a line for each line, whatever it is."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from fairseq.data import encoders
from subword_nmt.learn_bpe import learn_bpe

from fairseq_localattn.errors import UsageError
from fairseq_localattn.inference import Options, load, search
from fairseq_localattn.inference.text import Text, text_of
from fairseq_localattn.inference.translate import Job, lines_of, write
from support.inference.models import random_model, write_checkpoint

LINES = ["A dog's bone -- isn't “it” nice?", "x-ray & <b> 3.5%  ", "", "Über größere Hunde, z.B. „Dackel“!"]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    model, args = random_model("transformer_mma_tiny")
    args.max_source_positions = 30
    path = write_checkpoint(tmp_path_factory.mktemp("job"), model, args)
    return Job(load(path), Text(), Options(beam=2, nbest=1, max_len_b=6), max_tokens=200)


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
    if kind == "moses":
        theirs = encoders.build_tokenizer(Namespace(**options))
    else:
        theirs = encoders.build_bpe(Namespace(**options))
    for line in LINES:
        words = theirs.encode(line)
        assert ours.words(line) == words.split()
        assert ours.line(words.split()) == theirs.decode(words)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bpe": "gpt2"}, "--bpe gpt2: choose from"),
        ({"bpe": "subword_nmt"}, "--bpe-codes is missing"),
        ({"bpe": "sentencepiece", "sentencepiece_model": "/nowhere/x"}, "no such file"),
        ({"bpe": "sentencepiece", "sentencepiece_model": __file__}, "is no model of SentencePiece"),
    ],
    ids=str,
)
def test_steps_that_cannot_be_are_told_of(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        text_of(options)


def test_each_line_has_the_translation_that_it_has_alone(job: Job) -> None:
    lines = ["w3 w4 w5", "", "w9", " ".join(f"w{n}" for n in range(20)), "w3 w4 w5", "unheard w1"]
    found = job.translate(lines)
    assert found[1] == [("", 0.0)] and found[0][0][0] == found[4][0][0]
    for line, best in zip(lines, found, strict=True):
        (alone,) = job.translate([line])
        assert [text for text, _ in best] == [text for text, _ in alone]
        assert best[0][1] == pytest.approx(alone[0][1], abs=1e-5)
    tokens = job.trained.source.encode(["w9"])
    (best_of_all,) = search(job.trained.model, torch.tensor([tokens]), job.options)
    assert found[2][0][0].split() == job.trained.target.decode(best_of_all[0].tokens)


def test_a_long_line_is_told_of_and_translated_in_pieces(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"w{n % 40}" for n in range(70)]
    (whole,) = job.translate([" ".join(words)], first=8)
    assert "line 8: 71 tokens, and the model reads 30: it is translated in 3 pieces" in capsys.readouterr().err
    parts = job.translate([" ".join(words[start : start + 24]) for start in (0, 24, 48)])
    assert whole[0][0] == " ".join(best[0][0] for best in parts)
    refusing = Job(job.trained, job.text, job.options, pieces=False)
    assert refusing.translate([" ".join(words)]) == [[("", 0.0)]]
    assert "it is left empty" in capsys.readouterr().err


def test_a_line_of_another_language_is_told_of(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    job.translate(["w1 w2 w3 what", "привет как дела"], first=5)
    assert capsys.readouterr().err == (
        "fairseq_localattn: line 6: 3 of 3 words are unknown to the model: is it of its language?\n"
    )


def test_bytes_that_are_no_text_lose_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    read = list(lines_of(io.BytesIO("a\n\r\n\ufffd\n".encode() + b"b\xff\x85c\n\x0b\x0c\nd")))
    assert read == ["a", "", "\ufffd", "b\ufffd\ufffdc", "", "d"]
    assert capsys.readouterr().err.count("line ") == 1


def test_random_lines_lose_none(job: Job) -> None:
    random.seed(1)
    letters = [chr(n) for n in (*range(1, 10), *range(11, 40), 0x85, 0x2028, 0x3042, 0x1F600, 0xD7FF, 0x10FFFF)]
    kinds = (
        lambda: "",
        lambda: "".join(random.choices(letters, k=random.randrange(60))),
        lambda: " ".join(f"w{random.randrange(60)}" for _ in range(random.randrange(40))),
    )
    lines = [random.choice(kinds)() for _ in range(999)] + ["w1 " * 5000]
    read = list(lines_of(io.BytesIO("".join(f"{line}\n" for line in lines).encode())))
    assert len(read) == len(lines)
    written = [text for part in write(job, read, 120, scores=True) for text in part]
    assert len(written) == len(lines)
    assert all(text.count("\n") == 1 and text.endswith("\n") and text.count("\t") == 1 for text in written)


@pytest.mark.slow
def test_the_command_runs_where_there_is_no_fairseq(tmp_path: Path) -> None:
    model, args = random_model("transformer_csan_tiny")
    path = write_checkpoint(tmp_path, model, args)
    (tmp_path / "fairseq.py").write_text("raise ModuleNotFoundError('none', name='fairseq')")
    command = [sys.executable, "-m", "fairseq_localattn", "translate", "--path", str(path), "--max-len-b", "9"]
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": f"{tmp_path}:{root}", "OMP_NUM_THREADS": "1"}

    def run(*more: str, given: str = "w1 w2\n\nw3\n") -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], input=given, capture_output=True, text=True, env=environment)

    done = run()
    assert done.returncode == 0, done.stderr
    job = Job(load(path), Text(), Options(max_len_b=9))
    assert done.stdout.splitlines() == [best[0][0] for best in job.translate(["w1 w2", "", "w3"])]
    export = [*command[:3], "export", "--path", str(path), "--to", str(tmp_path / "model")]
    written = subprocess.run(export, capture_output=True, text=True, env=environment)
    assert written.returncode == 0, written.stderr
    path.unlink()
    command[5] = str(tmp_path / "model")
    assert run().stdout == done.stdout
    wrong = run("--beam", "0")
    assert wrong.returncode == 1 and wrong.stderr.splitlines() == ["fairseq_localattn: --beam 0: give 1 or more"]
