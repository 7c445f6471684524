"""Mistakes on a command line: one line that names the flag, and what was meant; fairseq-preprocess's files."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from fairseq import options

import fairseq_localattn  # noqa: F401  (repairs fairseq)
from fairseq_localattn.errors import UsageError

TRAIN = "DATA --arch transformer_csan_tiny"
LIST = "(python -m fairseq_localattn describe --arch transformer_csan_tiny --flags lists those of the model)"
MISTAKES = [
    (f"{TRAIN} --csan-windw -3", f"there is no flag --csan-windw; did you mean --csan-window? {LIST}"),
    (f"{TRAIN} --mma-window 3", f"there is no flag --mma-window here: it belongs to --arch transformer_mma {LIST}"),
    (f"{TRAIN} --plugh --qwertzuiop", f"there is no flag --plugh; there is no flag --qwertzuiop {LIST}"),
    (f"{TRAIN} --beam 5", f"there is no flag --beam here: it belongs to fairseq-generate {LIST}"),
    (
        f"{TRAIN} --label-smoothing 0.1",
        f"no flag --label-smoothing here: it belongs to --criterion label_smoothed_cross_entropy {LIST}",
    ),
    (
        f"{TRAIN} --adam-bets 1",
        f"no flag --adam-bets; did you mean --adam-betas, which belongs to --optimizer adam? {LIST}",
    ),
    (f"{TRAIN} more", "no flag takes 'more': the data is one word"),
    ("DATA", "--arch is missing; python -m fairseq_localattn lists the architectures"),
    ("--arch transformer_csan_tiny", "the following arguments are required: data"),
    ("DATA --arch transformer_csam_tiny", "--arch transformer_csam_tiny: there is no such value; did you mean tr"),
    ("DATA --arch xyzzy", "--arch xyzzy: there is no such value; python -m fairseq_localattn lists the architectures"),
    (f"{TRAIN} --optimizer adan", "--optimizer adan: there is no such value; choose from adadelta, "),
    (f"{TRAIN} --lr x", "argument --lr: invalid value: 'x'"),
    (f"{TRAIN} --fp16 --tpu", "Cannot combine --fp16 and --tpu"),
]


@pytest.mark.parametrize(("words", "line"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_is_one_line(words: str, line: str) -> None:
    with pytest.raises(UsageError) as error:
        options.parse_args_and_arch(options.get_training_parser(), shlex.split(words))
    assert line in error.value.code and "\n" not in error.value.code


def test_a_missing_task_is_named() -> None:
    """fairseq-validate has no default for it."""
    with pytest.raises(UsageError, match="--task is missing"):
        options.parse_args_and_arch(options.get_validation_parser(), ["DATA"])


PREPROCESS = [
    ("-s xx -t yy --trainpref none", "--trainpref none: there is no file none.xx"),
    ("-s xx -t yy --trainpref text,none", "--trainpref text,none: there is no file text,none.xx"),
    ("-s xx -t yy --trainpref text --testpref text,none", "--testpref none: there is no file none.xx"),
    ("--trainpref text", "there is no file text; give the languages, -s and -t, or --only-source"),
    ("-s xx -t yy --testpref text", "--trainpref is missing: dictionaries are made of its text, if not given"),
    ("-s xx -t yy --trainpref text --srcdict none", "there is no dictionary none"),
    ("-s xx -t zz --trainpref text --destdir made", "--destdir made: data are in it (made/dict.zz.txt)"),
    ("-s xx -t yy --trainpref text --testpref text", None),
    ("-s xx -t yy --trainpref text --testpref none --dict-only", None),
    ("-s xx -t yy --testpref text --srcdict dict --joined-dictionary", None),
    ("-s xx -t zz --testpref text --srcdict dict --tgtdict dict --destdir made --only-source", None),
]


@pytest.mark.parametrize(("words", "line"), PREPROCESS, ids=[words for words, _ in PREPROCESS])
def test_files_of_preprocess(words: str, line: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything is written, in one line; what fairseq takes is not refused."""
    monkeypatch.chdir(tmp_path)
    Path("made").mkdir()
    for name in ("text.xx", "text.yy", "text.zz", "dict", "made/dict.zz.txt"):
        Path(name).write_text("a 1\n")
    parser = options.get_preprocessing_parser()
    if line is None:
        assert parser.parse_args(shlex.split(words)).padding_factor == 8
        return
    with pytest.raises(UsageError) as error:
        parser.parse_args(shlex.split(words))
    assert line in error.value.code and "\n" not in error.value.code
