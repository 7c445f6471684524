"""Recipes: every YAML is what fairseq's own parser takes; dry runs and bad options of the runners."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.data import preparation as corpus
from experiments.engine import compare, quickstart
from experiments.measure import measures
from experiments.recipes import recipe
from experiments.runs import processes as jobs
from experiments.runs import progress
from support.paths import ROOT
from support.recipes import ARCH, BASE, with_flag, write

# Those of the papers' tables: test_table_recipes.py.
RECIPES = sorted(path for kind in ("compare", "quickstart") for path in (ROOT / "configs" / kind).rglob("*.yaml"))
# --- expansion


@pytest.mark.parametrize("path", RECIPES, ids=[str(path.relative_to(ROOT / "configs")) for path in RECIPES])
def test_every_recipe_expands_to_what_fairseq_accepts(path: Path) -> None:
    loaded = recipe.load_recipe(path)
    for system in [*loaded.get("architectures", []), *loaded.get("systems", {})] or ["transformer_mma_small"]:
        arch, own = loaded.system(system)
        argv = recipe.expand(own, "train", arch=arch)
        assert argv[argv.index("--max-update") + 1] == str(loaded.flag("train", "max_update"))
        measures.check_sections(own)
        measure = measures.measure_of(own)
        if measure.section:
            told = "--beam" if measure.section == "generate" else "--sample-break-mode"
            assert told in recipe.expand(own, measure.section, arch=arch)
    if "data" in loaded.meta:
        assert (ROOT / loaded.get("data")["prepare"]).exists()


def test_there_are_recipes() -> None:
    names = {path.relative_to(ROOT / "configs").as_posix() for path in RECIPES}
    assert {"quickstart/toy.yaml", "compare/multi30k_cpu.yaml", "compare/iwslt14_gpu.yaml"} <= names


def test_values_reach_fairseq(tmp_path: Path) -> None:
    """Parsed by fairseq again, the argv has the recipe's values and the architecture's sizes."""
    from fairseq import options

    argv = recipe.expand(recipe.load_recipe(write(tmp_path, BASE)), "train", arch=ARCH)
    argv = ["DATA", "--user-dir", str(recipe.USER_DIR), "--arch", ARCH, *argv]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=argv)
    assert (args.lr, args.max_update, args.label_smoothing, args.cpu) == ([0.001, 0.002], 3, 0.1, True)
    assert list(eval(args.adam_betas)) == [0.9, 0.98]
    assert args.share_all_embeddings is True and args.no_epoch_checkpoints is False
    assert (args.encoder_embed_dim, args.decoder_layers) == (64, 2)


@pytest.mark.parametrize(
    ("section", "line", "flag", "message"),
    [
        ("train", 4, "drop_out: 0.1", "no flag 'drop_out' .*did you mean 'dropout'"),
        ("train", 4, "warmup_update: 4", "no flag 'warmup_update'"),
        ("generate", 15, "bean: 5", "fairseq-generate has no flag 'bean' .*did you mean 'beam'"),
        ("train", 4, "encoder_embed_dim: 512", "is a model size: sizes stand in the architecture"),
        ("train", 4, "decoder-layers: 6", "is a model size"),
        ("train", 4, "encoder_attention_heads: 4", "is a model size"),
        ("train", 4, "seed: 3", "seed is set by the runner"),
        ("train", 4, "arch: transformer", "arch is set by the runner"),
        ("train", 4, "dropout: abc", "invalid float value: 'abc'"),
        ("train", 4, "dropout: true", "--dropout needs a value"),
        ("train", 4, "fp16: 3", "--fp16 is a switch"),
        ("train", 4, "lr_scheduler: sometimes", "invalid choice: 'sometimes'"),
        ("train", 5, "cpu: true", "cpu was already given on line 4"),
        ("train", 4, "dropout: ", "dropout has no value"),
    ],
)
def test_wrong_flag_names_file_and_line(section: str, line: int, flag: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, with_flag(flag, section))
    with pytest.raises(recipe.RecipeError, match=message) as caught:
        recipe.expand(recipe.load_recipe(path), section, arch=ARCH)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(caught.value)


def test_flag_of_a_variant_only_with_its_architecture(tmp_path: Path) -> None:
    loaded = recipe.load_recipe(write(tmp_path, with_flag("csan_window: 5")))
    assert "--csan-window" in recipe.expand(loaded, "train", arch="transformer_csan_tiny")
    with pytest.raises(recipe.RecipeError, match="no flag 'csan_window' for transformer_localattn_tiny"):
        recipe.expand(loaded, "train", arch=ARCH)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trian:\n  cpu: true\n", r":1: unknown key 'trian'; did you mean 'train'"),
        ("seeds: 3\ntrain:\n  cpu: true\n", r":1: seeds must be a list"),
        ("threads: true\ntrain:\n  cpu: true\n", r":1: threads must be a whole number"),
        ("data:\n  nmae: x\ntrain:\n  cpu: true\n", r":2: unknown key 'nmae' in data; did you mean 'name'"),
        ("hardware: tpu\ntrain:\n  cpu: true\n", r":1: hardware must be cpu or gpu"),
        ("generate:\n  beam: 5\n", r"the section 'train' is missing"),
        ("train: 3\n", r":1: train must hold flags"),
        ("train:\n  a: [1\n", r":3: not valid YAML"),
        ("- 1\n", r"a recipe is a mapping"),
        ("extends: none.yaml\n", r":1: extends none.yaml, which is not there"),
        ("extends: r.yaml\n", r":1: extends itself"),
    ],
)
def test_wrong_structure_names_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(recipe.RecipeError, match=message):
        recipe.load_recipe(write(tmp_path, text))


def test_extends_replaces_and_removes(tmp_path: Path) -> None:
    base = write(tmp_path, BASE, "base.yaml")
    child = write(tmp_path, "extends: base.yaml\nseeds: [7]\ntrain:\n  max_update: 9\n  lr: null\n  drop: 1\n")
    loaded = recipe.load_recipe(child)
    assert (loaded.flag("train", "max_update"), loaded.get("seeds"), loaded.name) == (9, [7], "r")
    assert "lr" not in loaded.sections["train"] and loaded.flag("generate", "beam") == 5
    assert loaded.sections["train"]["max_tokens"].where == f"{base}:10"
    with pytest.raises(recipe.RecipeError, match=rf"{child}:6: .* no flag 'drop'"):
        recipe.expand(loaded, "train", arch=ARCH)


def test_yaml_to_args_command(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "yaml_to_args.py"
    path = write(tmp_path, BASE)
    done = subprocess.run([sys.executable, script, path, "--arch", ARCH], capture_output=True, text=True)
    expected = recipe.expand(recipe.load_recipe(path), "train", arch=ARCH)
    assert (done.returncode, shlex.split(done.stdout)) == (0, expected)
    path = write(tmp_path, with_flag("encoder_layers: 2"))
    failed = subprocess.run([sys.executable, script, path, "--arch", ARCH], capture_output=True, text=True)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.splitlines()[-1].startswith(f"yaml_to_args: {path}:4: encoder_layers is a model size")


# --- data of a recipe


def test_the_corpus_comes_from_flag_variable_recipe_or_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("flag", "variable", "own"):
        (tmp_path / name).mkdir()
    own = f"prepare: data-prep/prepare_multi30k.sh, variable: MULTI30K_DIR, local: {tmp_path}/own,"
    loaded = recipe.load_recipe(write(tmp_path, BASE.replace("prepare: data-prep/prepare_toy.sh,", own)))
    monkeypatch.setenv("MULTI30K_DIR", str(tmp_path / "variable"))
    assert corpus.local_folder(loaded, str(tmp_path / "flag")) == tmp_path / "flag"
    assert corpus.local_folder(loaded, None) == tmp_path / "variable"
    monkeypatch.setenv("MULTI30K_DIR", "/none/there")
    with pytest.raises(recipe.RecipeError, match="^MULTI30K_DIR=/none/there: no such folder"):
        corpus.local_folder(loaded, None)
    monkeypatch.delenv("MULTI30K_DIR")
    assert corpus.local_folder(loaded, None) == tmp_path / "own"
    (tmp_path / "own").rmdir()
    assert corpus.local_folder(loaded, None) is None


def test_multi30k_recipes_know_the_variable() -> None:
    for name in ("compare/multi30k_cpu", "quickstart/multi30k"):
        assert recipe.load_recipe(ROOT / "configs" / f"{name}.yaml").get("data")["variable"] == "MULTI30K_DIR"


def test_another_preparation_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of options, or of the grammar, the data are prepared anew; the old ones stay."""
    monkeypatch.setattr(corpus, "ROOT", tmp_path)
    (tmp_path / "prep").mkdir()
    (tmp_path / "prep" / "prepare.sh").write_text("one\n")
    (tmp_path / "prep" / "grammar.py").write_text("one\n")
    text = BASE.replace("data-prep/prepare_toy.sh", "prep/prepare.sh")
    folders = []

    def look(text: str) -> None:
        folders.append(corpus.data_of(recipe.load_recipe(write(tmp_path, text)), tmp_path / "out").folder)

    look(text)
    look(text + "  lenpen: 2\n")
    assert folders[0] == folders[1] and folders[0].parent == tmp_path / "out"
    look(text.replace("source: de", "options: [--bpe, 7], source: de"))
    (tmp_path / "prep" / "grammar.py").write_text("two\n")
    look(text)
    (tmp_path / "prep" / "prepare.sh").write_text("two\n")
    look(text)
    assert len(set(folders)) == 4
    with pytest.raises(recipe.RecipeError, match="prep/none.sh: no such script"):
        look(text.replace("prepare.sh", "none.sh"))


def test_data_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the script says of the data, with the log's path; the tail of the log only where it crashed."""
    monkeypatch.setattr(corpus, "ROOT", tmp_path)
    script = tmp_path / "prepare.sh"
    loaded = recipe.load_recipe(write(tmp_path, BASE.replace("data-prep/prepare_toy.sh", "prepare.sh")))

    def failure(text: str) -> tuple[str, Path]:
        script.write_text(text)
        data = corpus.data_of(loaded, tmp_path / "out")
        with pytest.raises(jobs.JobFailed) as caught:
            corpus.prepare(loaded, data, None, progress.Progress(), after=0, threads=1)
        return str(caught.value), data.folder.with_name(data.folder.name + ".log")

    message, log = failure("echo get files\necho 'data error: train.de:4: empty line' >&2\nexit 1\n")
    assert message == f"data error: train.de:4: empty line (log: {log})"
    message, log = failure("echo 'Traceback (most recent call last):'\necho 'x error: y'\nexit 1\n")
    assert "failed with exit status 1\n" in message and str(log) in message
    message, log = failure("exit 3\n")
    log.write_text("prepare: error: of an earlier start\n")
    assert "exit status 3" in failure("exit 3\n")[0]


# --- runners: dry run and bad options


@pytest.mark.parametrize("name", ["compare.py", "quickstart.py", "score.py", "yaml_to_args.py"])
def test_an_interpreter_without_the_dependencies(name: str) -> None:
    """-S hides the environment's packages."""
    done = subprocess.run([sys.executable, "-S", ROOT / "scripts" / name], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith(f"{name[:-3]}: error: {sys.executable} lacks torch, fairseq, ")
    assert f"run scripts/setup.sh, then .venv/bin/python scripts/{name}" in done.stderr


@pytest.mark.parametrize(("given", "expected"), [("", ".venv"), ("envs/a", "envs/a"), ("/envs/a", "/envs/a")])
def test_shell_scripts_find_the_environment(given: str, expected: str, tmp_path: Path) -> None:
    """A relative LOCALATTN_VENV is that of setup.sh: from the repository's root, wherever one stands."""
    command = ["bash", "-c", f". {shlex.quote(str(ROOT / 'scripts' / 'lib.sh'))}; echo $PY"]
    env = {**os.environ, "LOCALATTN_VENV": given}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"{ROOT.resolve() / expected}/bin/python\n"


def test_an_unused_gpu_is_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = quickstart.recipe_for("toy", "transformer_mma_small", None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    note = quickstart.gpu_note(toy)
    assert note is not None and "CUDA GPU" in note and "trains on the CPU" in note
    assert quickstart.gpu_note(recipe.load_recipe(ROOT / "configs" / "compare" / "iwslt14_gpu.yaml")) is None
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert quickstart.gpu_note(toy) is None


def call(main, monkeypatch: pytest.MonkeyPatch, *argv: object) -> int:
    monkeypatch.setattr(sys, "argv", ["command", *map(str, argv)])
    return main()


def commands(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if "fairseq_cli.train" in line]


def without(command: list[str], *flags: str) -> list[str]:
    """A command without these flags' values."""
    return [word for before, word in zip(["", *command], command, strict=False) if before not in flags]


def test_quickstart_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    assert call(quickstart.main, monkeypatch, "--dry-run", "--out", tmp_path / "out") == 0
    text = capsys.readouterr().out
    assert "prepare_toy.sh" in text and text.count("fairseq_cli.generate") == 2
    variant, plain = commands(text)
    assert variant[variant.index("--arch") + 1] == "transformer_mma_small"
    assert plain[plain.index("--arch") + 1] == "transformer_localattn_small"
    paths = ("--arch", "--save-dir", "--log-file")
    assert without(variant, *paths) == without(plain, *paths)
    assert not (tmp_path / "out").exists()


def test_compare_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    path = ROOT / "configs" / "compare" / "multi30k_cpu.yaml"
    options = ["--dry-run", "--seeds", "4,5", "--archs", "transformer_csan_small", "--out", tmp_path / "out"]
    assert call(compare.main, monkeypatch, path, *options, "--results", tmp_path) == 0
    trained = commands(capsys.readouterr().out)
    found = [(line[line.index("--arch") + 1], line[line.index("--seed") + 1]) for line in trained]
    assert found == [
        (arch, seed) for arch in ("transformer_localattn_small", "transformer_csan_small") for seed in "45"
    ]
    assert len({" ".join(without(line, "--arch", "--seed", "--save-dir", "--log-file")) for line in trained}) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--systems", "transformer_nosuch"], "transformer_nosuch: no such architecture; there are .*transformer_mma"),
        (["--archs", "transformer_mma_small,transformer_mma_tiny"], "systems of different sizes"),
        (["--archs", "transformer_mma_small,transformer_mma_small"], "a system is given twice"),
        (["--seeds", "1,a"], "seeds are whole numbers"),
        (["--seeds", "1,1"], "a seed is given twice"),
        (["--jobs", "1000"], "--jobs 1000: with 1 thread"),
        (["--jobs", "0"], "--jobs 0: at least 1"),
        (["--local", "/none/there"], "--local /none/there: no such folder"),
    ],
)
def test_compare_bad_options(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    path = ROOT / "configs" / "compare" / "multi30k_cpu.yaml"
    assert call(compare.main, monkeypatch, path, "--dry-run", "--results", tmp_path, *options) == 2
    error = capfd.readouterr().err
    assert re.search(message, error), error
    assert error.count("\n") == 1 and error.startswith("compare: error: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--arch", "lstm"],
            "--arch lstm: no such architecture; there are transformer_csan, transformer_diffwin, transformer_man",
        ),
        (["--data", "wmt"], "--data wmt: no such data set; there are multi30k, toy"),
        (["--data", "multi30k", "--local", "/none/there"], "--local /none/there: no such folder"),
        (["--out"], "--out needs a value"),
        (["--speed", "9"], "unknown argument '--speed'"),
    ],
)
def test_quickstart_refuses_before_the_set_up(options: list[str], message: str) -> None:
    begin = time.monotonic()
    done = subprocess.run([ROOT / "scripts" / "quickstart.sh", *options], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1
    assert time.monotonic() - begin < 5
