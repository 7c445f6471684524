"""Wrong command lines of scripts/table.py: one line says what is wrong, and what there is instead."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from experiments.engine import table


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("man", "the following arguments are required: TABLE"),
        ("man table1 --scale big", "argument --scale: invalid choice: 'big'"),
        ("man table1 --gpus x", "argument --gpus: invalid int value: 'x'"),
        ("man table1 --bogus", "unrecognized arguments: --bogus; --help lists all options"),
        ("nopaper table1", "nopaper: no such paper; there are comparisons, csan, diffwin, man, mgsa, mma, quickstart"),
        ("base vaswani_wmt14_en_de", "base: no such paper"),
        ("man tabel1", "man tabel1: no such table; man has table1, table2,"),
        ("man ../mma/table1", "man ../mma/table1: no such table"),
        ("man others --scale full", "others.yaml: has no rows at the scale full, only at small"),
        ("man table1 --rows iwslt14_transformr", "did you mean 'iwslt14_transformer'?"),
        ("man table1 --seeds a", "--seeds a: seeds are whole numbers, separated by commas"),
        ("man table1 --seeds -1", "--seeds -1: a seed is from 0 to 2^32 - 1"),
        ("man table1 --seeds 1,1", "--seeds 1,1: a seed is given twice"),
        ("man table1 --cpu --gpus 0", "--gpus 0: at least 1"),
        ("man table1 --cpu --gpus 100000", "100000 processes, but a batch has 16384 tokens"),
        ("man table1 --cpu --max-tokens 0", "--max-tokens 0: at least 1"),
        ("man table1 --scale small --jobs 9999", "--jobs 9999: with 1 thread(s) a run, "),
        ("man table1 --nodes 2 --rendezvous host:x", "--rendezvous host:x: goes with --nodes, as HOST:PORT"),
        ("man table1 --seeds 1,2 --task -1", "--task -1: rows and seeds make "),
        ("man table1 --nodes 2 --rendezvous a:1 --jobs 2", "--jobs 2: with --nodes trainings follow each other"),
        ("man table1 --cpu --local /none", "--local /none: these rows have several corpora: give NAME=DIR"),
        ("man table1 --cpu --local x=/tmp", "--local x=/tmp: these rows have no corpus x: there are iwslt14, "),
        ("man table1 --cpu --local iwslt14=/none", "--local /none: no such folder; give the folder that holds iwslt14"),
        (
            "man others --out FILE",
            "--out FILE: cannot be written: File exists; a file stands where a folder",
        ),
        ("man others --out OUT --results FILE/x", "--results FILE/x/man: cannot be written: Not a directory"),
    ],
)
def test_one_line(words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "FILE").write_text("")
    words, message = (text.replace("FILE", str(tmp_path / "FILE")) for text in (words, message))
    words = words.replace("OUT", str(tmp_path / "out"))
    try:
        status = table.main(shlex.split(words))
    except SystemExit as stop:  # argparse's
        status = int(stop.code or 0)
    told = capsys.readouterr()
    assert status == 2 and told.out == ""
    assert told.err.startswith("table: error: ") and message in told.err and told.err.count("\n") == 1
