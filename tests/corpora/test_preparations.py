"""The contract of all preparations: stopped and continued, run again, other options, damaged corpora."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from corpora.preparations.main import PREPARATIONS
from support.corpora.prep import assert_refused, contents, files_of, prepare, prepare_by
from support.corpora.preparations import CASES, KILLED, Case, Prepared, unpacked
from support.paths import DATA_PREP

RUN = '. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"'
EXECUTABLE = sorted(path.name.removeprefix("prepare_").removesuffix(".sh") for path in DATA_PREP.glob("prepare_*.sh"))


def of_cases(names: Iterable[str] = CASES) -> list:
    """Return a parameter for each preparation; its tests share the prepared corpus in one worker."""
    return [pytest.param(CASES[name], id=name, marks=pytest.mark.xdist_group(name)) for name in names]


def test_every_preparation_has_a_case_and_a_script():
    assert sorted(CASES) == EXECUTABLE
    assert {path.read_text().splitlines()[-1] for path in DATA_PREP.glob("p*_*.sh")} == {RUN}
    assert sorted(PREPARATIONS) == sorted(["parse_text", *(f"prepare_{name}" for name in EXECUTABLE)])


@pytest.mark.slow
@pytest.mark.parametrize("case", of_cases(KILLED))
def test_killed_run_continues_to_the_same_bytes(case: Case, done: Prepared, tmp_path):
    """The prepared corpus was killed once; another one is made in one go."""
    assert not list(done.out.rglob("*.part*"))
    again = done.prepare(tmp_path / "out")
    assert again.returncode == 0, again.stderr
    assert contents(tmp_path / "out") == contents(done.out)


@pytest.mark.slow
@pytest.mark.parametrize("case", of_cases())
def test_second_run_changes_nothing_and_other_options_are_refused(case: Case, done: Prepared):
    before, begin = files_of(done.out), time.perf_counter()
    again = done.prepare(done.out)
    assert time.perf_counter() - begin < 4
    assert (again.returncode, again.stdout) == (0, f"prepare_{case.name}: ready: {done.out}/bin\n"), again.stderr
    other, asked = case.other
    refused = done.prepare(done.out, *other.split())
    assert_refused(refused, "was prepared with", asked, "give another folder or remove it")
    assert files_of(done.out) == before


@pytest.mark.parametrize("case", of_cases())
def test_wrong_command_lines(case: Case, tmp_path):
    out = tmp_path / "out"
    assert_refused(prepare(case.name, out, "--sed", "1"), "unknown option --sed (see --help)")
    assert_refused(prepare_by(case.name), "no output folder given")
    assert_refused(prepare(case.name, out, "--workers", "many"), "--workers needs a number from 1, got 'many'")
    assert prepare_by(case.name, "--help").stdout.startswith(f"usage: prepare_{case.name}.sh OUT")
    if "{source}" in case.options:
        assert_refused(prepare(case.name, out, *case.arguments(tmp_path / "none")), f"{tmp_path}/none")
    assert not out.exists()


GIVEN = "--source de --target en --train {text}"  # of prepare_parallel.sh
WRONG = [
    ("toy", "--bpe", "--bpe needs a value"),
    ("toy", "second", "one output folder, please: what is 'second'?"),
    ("iwslt14", "--min-correlation -2", "--min-correlation needs a number from -1, got '-2'"),
    ("lm", "--local . --blank-lines skip", "--blank-lines invalid choice: 'skip' (choose from"),
    ("lm", "--local . --lang ../en", "--lang needs the ending"),
    ("lm", "", "no corpus given: --local DIR"),
    ("iwslt14", "--tokenised", "--tokenised needs --local DIR"),
    ("iwslt14", "--tokenised --test mma", "cannot choose the test set of tokenised text"),
    ("wmt14_en_de", "--data google", "--data google needs --local DIR with wmt16_en_de.tar.gz"),
    ("wmt14_en_de", "--data google --local . --separate-dictionaries", "and one dictionary"),
    ("aspec", "", "no ASPEC folder"),
    ("aspec", "--local . --pieces 9 --bpe 9", "--pieces or --bpe"),
    ("aspec", "--local . --joined-dictionary", "goes with --bpe"),
    ("aspec", "--local . --join-ja", "goes with --pairs"),
    ("aspec", "--local . --sections 4", "--sections is 1, 2 or 3"),
    ("cnndm", "--vocab x --train-vocab 9", "--vocab FILE or --train-vocab N, not both"),
    ("cnndm", "--vocab /nowhere/vocab.txt", "no file /nowhere/vocab.txt"),
    ("multi30k", "--trees fr", "--trees fr: no such language here, there is: de en"),
    ("multi30k", "--parser x", "--parser and --tree-files need --trees LANGUAGE"),
    ("multi30k", "--trees en --parser /nowhere", "--parser /nowhere: no such folder"),
    ("multi30k", "--trees en --tree-files /nowhere", "--tree-files /nowhere: no such folder"),
    ("multi30k", "--trees en --tree-files . --parser .", "not both"),
    ("parallel", "", "--source needs the ending of its files, such as de, got ''"),
    ("parallel", "--source de --target de", "--source and --target are both 'de'"),
    ("parallel", "--source de --target en", "--train PREFIX is missing: PREFIX.de and PREFIX.en are the training"),
    ("parallel", f"{GIVEN} --bpe 80 --pieces 80", "--bpe or --pieces, please, not both"),
    ("parallel", f"{GIVEN} --test nowhere", "no file nowhere.de, nor one with .gz: --test is what both"),
]


@pytest.mark.parametrize(("corpus", "options", "message"), WRONG)
def test_wrong_options(corpus: str, options: str, message: str, tmp_path):
    for lang in ("de", "en"):
        (tmp_path / f"text.{lang}").touch()
    words = [word.format(text=tmp_path / "text") for word in options.split()]
    assert_refused(prepare(corpus, tmp_path / "out", *words), message)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items() if case.damage])
def test_damaged_corpora_name_file_and_line(case: Case, tmp_path):
    source, out = tmp_path / "source", tmp_path / "out"
    case.make(tmp_path / "corpus")
    unpacked(tmp_path / "corpus", source)
    assert case.damage
    name, damage, message = case.damage
    damage(source / name)
    assert_refused(case.prepare(source, out), message)
    assert not (out / "raw").exists() and not (out / "bin").exists()
