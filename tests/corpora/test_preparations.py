"""The contract of all preparations: killed and continued, run again, other options, damaged corpora."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

import pytest

from corpora.preparations.main import PREPARATIONS
from support.corpora.prep import assert_refused, contents, files_of, prepare, prepare_by, start_and_kill
from support.corpora.preparations import CASES, Case, Prepared, damage, unpacked
from support.paths import DATA_PREP

WITH_LIBRARY = {
    "nist": "jieba",
    "wmt17_zh_en": "jieba",
    "aspec": "MeCab",
    "cnndm": "tokenizers",
    "gigaword": "tokenizers",
}
EXECUTABLE = sorted(path.name.removeprefix("prepare_").removesuffix(".sh") for path in DATA_PREP.glob("prepare_*.sh"))


def of_cases(*, slow: bool = True) -> list:
    """Return a parameter for each preparation; its tests share the prepared corpus in one worker."""
    marks = {name: [pytest.mark.xdist_group(name)] + [pytest.mark.slow] * (slow and CASES[name].slow) for name in CASES}
    return [pytest.param(case, id=name, marks=marks[name]) for name, case in CASES.items()]


@pytest.fixture()
def library(request) -> None:
    """Skip preparations whose library is not installed."""
    if library := WITH_LIBRARY.get(request.node.callspec.params["case"].name):
        pytest.importorskip(library)


def test_every_preparation_has_a_case_and_a_door():
    assert sorted(CASES) == EXECUTABLE
    assert sorted(PREPARATIONS) == sorted(["parse_text", *(f"prepare_{name}" for name in EXECUTABLE)])


@pytest.mark.slow
@pytest.mark.parametrize("case", of_cases())
def test_killed_run_continues_to_the_same_bytes(case: Case, library, preparation: Callable[[str], Prepared], tmp_path):
    """The prepared corpus was killed once; another one is made in one go, up to the last step."""
    done = preparation(case.name)
    assert not list(done.out.rglob("*.part*"))
    out = tmp_path / "out"
    start_and_kill(case.name, out, out / "bin.part", *case.arguments(done.source), **case.given(done.source))
    steps = [path.name for path in out.iterdir() if path.is_dir() and path.name not in ("bin.part", "download")]
    assert {"raw"} < set(steps)
    for step in steps:
        assert contents(out / step) == contents(done.out / step), step


@pytest.mark.slow
@pytest.mark.parametrize("case", of_cases())
def test_second_run_changes_nothing_and_other_options_are_refused(
    case: Case, library, preparation: Callable[[str], Prepared]
):
    done = preparation(case.name)
    before, given = files_of(done.out), case.given(done.source)
    begin = time.perf_counter()
    again = prepare(case.name, done.out, *case.arguments(done.source), **given)
    assert time.perf_counter() - begin < 4
    assert (again.returncode, again.stdout) == (0, f"prepare_{case.name}: ready: {done.out}/bin\n"), again.stderr
    *other, now, asked = case.other
    refused = prepare(case.name, done.out, *case.arguments(done.source), *other, **given)
    assert_refused(refused, now, asked, "give another folder or remove it")
    assert files_of(done.out) == before


@pytest.mark.parametrize("case", of_cases(slow=False))
def test_wrong_command_lines(case: Case, tmp_path):
    out = tmp_path / "out"
    assert_refused(prepare(case.name, out, "--sed", "1"), "unknown option --sed (see --help)")
    assert_refused(prepare_by(case.name), "no output folder given")
    assert_refused(prepare(case.name, out, "--workers", "many"), "--workers needs a number from 1, got 'many'")
    assert prepare_by(case.name, "--help").stdout.startswith(f"usage: prepare_{case.name}.sh OUT")
    if case.missing:
        done = prepare(case.name, out, *case.arguments(tmp_path / "none", case.local), case.missing, "/nowhere")
        assert_refused(done, "/nowhere")
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items() if case.damages])
def test_damaged_corpora_name_file_and_line(case: Case, library, tmp_path):
    corpus, source, out = tmp_path / "corpus", tmp_path / "source", tmp_path / "out"
    case.make(corpus)
    unpacked(case, corpus, source)
    for name, change, message in case.damages:
        kept = (source / name).read_bytes()
        damage(source / name, change)
        done = prepare(case.name, out, *case.arguments(source, case.local))
        assert_refused(done, message)
        assert not list(out.glob("raw")) and not list(out.glob("bin")), name
        (source / name).write_bytes(kept)
        shutil.rmtree(out)
