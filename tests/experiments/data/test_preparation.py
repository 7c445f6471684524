"""The data of recipes: where a corpus comes from, where it goes, and what is said where it cannot be prepared."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.data import preparation
from experiments.data.prepared import Prepared
from experiments.recipes.recipe import RecipeError, load_recipe
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import find_table
from experiments.system.processes import JobFailed
from experiments.system.progress import Progress
from support.recipes import BASE, write


def test_the_corpus_comes_from_flag_variable_recipe_or_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("flag", "variable", "own"):
        (tmp_path / name).mkdir()
    own = f"prepare: data-prep/prepare_multi30k.sh, variable: MULTI30K_DIR, local: {tmp_path}/own,"
    text = BASE.replace("prepare: data-prep/prepare_toy.sh,", own)
    data = load_recipe(write(tmp_path, text)).corpus
    monkeypatch.setenv("MULTI30K_DIR", str(tmp_path / "variable"))
    assert preparation.local_folder(data, str(tmp_path / "flag")) == tmp_path / "flag"
    assert preparation.local_folder(data, None) == tmp_path / "variable"
    monkeypatch.setenv("MULTI30K_DIR", "/none/there")
    with pytest.raises(RecipeError, match="^MULTI30K_DIR=/none/there: no such folder"):
        preparation.local_folder(data, None)
    monkeypatch.delenv("MULTI30K_DIR")
    assert preparation.local_folder(data, None) == tmp_path / "own"
    (tmp_path / "own").rmdir()
    assert preparation.local_folder(data, None) is None


def test_another_preparation_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of options the data are prepared anew, and the old ones stay; other flags change nothing."""
    monkeypatch.setattr(preparation, "ROOT", tmp_path)
    for name in ("data-prep/prepare.sh", "data-prep/prepare_toy.sh", "data-prep/corpora/toy/grammar.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\n")
    text = BASE.replace("data-prep/prepare_toy.sh", "data-prep/prepare.sh")

    def folder(text: str) -> Path:
        return preparation.prepared(load_recipe(write(tmp_path, text)), tmp_path / "out").folder

    first = folder(text)
    assert first.parent == tmp_path / "out" / "data" and folder(text + "  lenpen: 2\n") == first
    other = folder(text.replace("source: de", "options: [--bpe, 7], source: de"))
    assert other != first
    # Trees are added to data that are there.
    assert folder(text.replace("source: de", "options: [--bpe, 7, --trees, en], source: de")) == other
    (tmp_path / "data-prep" / "prepare.sh").write_text("two\n")
    assert folder(text) == first
    # The toy grammar refuses data that an older one has written.
    toy = folder(BASE)
    (tmp_path / "data-prep" / "prepare_toy.sh").write_text("two\n")
    assert folder(BASE) == toy
    (tmp_path / "data-prep" / "corpora" / "toy" / "grammar.py").write_text("two\n")
    assert folder(BASE) != toy and folder(text) == first
    with pytest.raises(RecipeError, match="prep/none.sh: no such script"):
        folder(text.replace("prepare.sh", "none.sh"))


def test_data_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the script says of the data, with the log's path; the tail of the log only where it crashed."""
    monkeypatch.setattr(preparation, "ROOT", tmp_path)
    script = tmp_path / "data-prep" / "prepare.sh"
    script.parent.mkdir()
    recipe = load_recipe(write(tmp_path, BASE.replace("data-prep/prepare_toy.sh", "data-prep/prepare.sh")))

    def failure(text: str) -> tuple[str, Path]:
        script.write_text(text)
        data = preparation.prepared(recipe, tmp_path / "out")
        with pytest.raises(JobFailed) as caught:
            preparation.Corpus(recipe, data, None, None).prepare(Progress(), after=0)
        return str(caught.value), data.folder.with_name(data.folder.name + ".log")

    message, log = failure("echo get files\necho 'data error: train.de:4: empty line' >&2\nexit 1\n")
    assert message == f"data error: train.de:4: empty line (log: {log})"
    message, log = failure("echo 'Traceback (most recent call last):'\necho 'x error: y'\nexit 1\n")
    assert "failed with exit status 1\n" in message and str(log) in message
    message, log = failure("exit 3\n")
    log.write_text("prepare: error: of an earlier start\n")
    assert "exit status 3" in failure("exit 3\n")[0]


def test_logs_lie_beside_the_folder_with_its_whole_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data of other options have other logs."""
    logs: list[str] = []

    def job(argv: list[str], log: Path, threads: int) -> SimpleNamespace:
        logs.append(log.name)
        return SimpleNamespace(finished=lambda: True)

    monkeypatch.setattr(preparation, "Job", job)
    data = Prepared(tmp_path / "toy.0123abcd")
    preparation.Corpus(load_recipe(write(tmp_path, BASE)), data, None, tmp_path / "mini").prepare(Progress(), after=0)
    assert logs == ["toy.0123abcd.mini.log", "toy.0123abcd.log"]


def test_commands_have_the_folders_of_the_user(tmp_path: Path) -> None:
    """{folder} and {local} stand for the data's folder and the local copy, which else follows as --local."""
    text = BASE.replace(
        "source: de", "variable: CORPUS, options: [--from, '{local}/a', --to, '{folder}.x'], source: de"
    )
    recipe = load_recipe(write(tmp_path, text))
    data = Prepared(tmp_path / "data")
    found = preparation.Corpus(recipe, data, tmp_path / "copy", None).command()
    assert found[2:] == [str(data.folder), "--from", f"{tmp_path}/copy/a", "--to", f"{data.folder}.x"]
    with pytest.raises(RecipeError, match=r"none: give its folder with --local DIR or \$CORPUS$"):
        preparation.Corpus(recipe, data, None, None).command()
    recipe = load_recipe(write(tmp_path, text.replace("variable: CORPUS, ", "")))
    assert preparation.local_folder(recipe.corpus, str(tmp_path)) == tmp_path
    with pytest.raises(RecipeError, match="none: give its folder with --local DIR$"):
        preparation.Corpus(recipe, data, None, None).command()
    plain = load_recipe(write(tmp_path, BASE))
    assert preparation.Corpus(plain, data, tmp_path, None).command()[2:] == [str(data.folder), "--local", str(tmp_path)]
    assert preparation.Corpus(plain, data, None, None).command()[2:] == [str(data.folder)]


def test_what_a_task_does_not_read_is_not_in_its_settings(tmp_path: Path) -> None:
    """Phrases that are added to the data change the runs that read them, and no others; so does the direction."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("train.de-en.en.bin", "train.de-en.en.idx", "dict.en.txt"):
        (folder / name).write_text(name)
    table = find_table("mgsa", "table3")
    plain, phrases = (recipe_at(table, row, "small") for row in ("ngram", "syntactic"))

    def found(source: str = "en", target: str = "de") -> tuple[str, str]:
        data = Prepared(tmp_path, source, target)
        return data.fingerprint_for(plain), data.fingerprint_for(phrases)

    before = found()
    (folder / "train.de-en.en.phrases.bin").write_text("phrases")
    (folder / "dict.en.phrases.txt").write_text("NP 1")
    after = found()
    assert before[0] == after[0] and before[1] != after[1]
    assert not before[1], "what reads phrases has no data without them"
    (tmp_path / "trees.txt").write_text("trees=en")
    assert found() == before, "a preparation that was stopped among its phrases has not prepared them"
    (tmp_path / "phrases").mkdir()
    assert found() == after
    assert set(found("de", "en")).isdisjoint(after)
