"""Recipes: what a file may hold, how its flags become fairseq's argv, and errors that name file and line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from experiments.recipes.flags import expand
from experiments.recipes.recipe import RecipeError, load_recipe
from experiments.runs.settings import settings_hash
from experiments.system.checkout import USER_DIR
from support.recipes import ARCH, BASE, load, with_flag, write

# The hash of BASE. With another one, finished runs and lines that people have would not be found again.
PINNED = "13079338"


def test_values_reach_fairseq(tmp_path: Path) -> None:
    """Parsed by fairseq again, the argv has the recipe's values and the architecture's sizes."""
    from fairseq import options

    flags = expand(load(tmp_path, BASE), "train")
    argv = ["DATA", "--user-dir", str(USER_DIR), "--arch", ARCH, *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=argv)
    assert (args.lr, args.max_update, args.label_smoothing, args.cpu) == ([0.001, 0.002], 3, 0.1, True)
    assert list(ast.literal_eval(args.adam_betas)) == [0.9, 0.98]
    assert args.share_all_embeddings is True and args.no_epoch_checkpoints is False
    assert (args.encoder_embed_dim, args.decoder_layers) == (64, 2)
    assert "--lenpen=-1.5" in expand(load(tmp_path, with_flag("lenpen: -1.5", "generate")), "generate")


@pytest.mark.parametrize(
    ("section", "line", "flag", "message"),
    [
        ("train", 4, "drop_out: 0.1", "no flag 'drop_out' .*did you mean 'dropout'"),
        ("generate", 15, "bean: 5", "fairseq-generate has no flag 'bean' .*did you mean 'beam'"),
        ("train", 4, "encoder_embed_dim: 512", "is a model size: sizes stand in the architecture"),
        ("train", 4, "decoder-layers: 6", "is a model size"),
        ("train", 4, "seed: 3", "seed is set by the runner"),
        ("train", 4, "dropout: abc", "invalid float value: 'abc'"),
        ("train", 4, "dropout: true", "--dropout needs a value"),
        ("train", 4, "fp16: 3", "--fp16 is a switch"),
        ("train", 4, "task: none", "invalid choice: 'none'"),
        ("train", 5, "cpu: true", "cpu was already given on line 4"),
        ("train", 4, "dropout: ", "dropout has no value, and there is none to remove"),
        ("train", 4, "dropout: 2017-01-99", "day is out of range"),
    ],
)
def test_wrong_flag_names_file_and_line(section: str, line: int, flag: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, with_flag(flag, section))
    with pytest.raises(RecipeError, match=message) as caught:
        expand(load_recipe(path), section)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trian:\n  cpu: true\n", r":1: unknown key 'trian'; did you mean 'train'"),
        ("seeds: 3\n", r":1: seeds must be a list, not 3"),
        ("seeds: [1, one]\n", r":1: seeds must be a whole number, not 'one'"),
        ("seeds: []\n", r":1: seeds must be a list of different whole numbers"),
        ("threads: true\n", r":1: threads must be a whole number, not True"),
        ("gpus: 0\n", r":1: gpus must be a whole number from 1, not 0"),
        ("expect_minutes: long\n", r":1: expect_minutes must be a number, not 'long'"),
        ("hardware: tpu\n", r":1: hardware must be cpu or gpu, not 'tpu'"),
        ("average: {last: 0}\n", r":1: average must be \{last: N\} or \{best: N\}, not"),
        ("average: {last: five}\n", r":1: average: last must be a whole number, not 'five'"),
        ("paper: {tokenised_bleu: high}\n", r": paper: tokenised_bleu must be a number, not 'high'"),
        ("data:\n  nmae: x\n", r":2: unknown key 'nmae'; did you mean 'name'"),
        ("data: {name: x}\n", r": data needs the key 'prepare'"),
        ("train: {[a]: 1}\n", r":1: a key must be a word"),
        ("train:\n  a: [1\n", r":3: not valid YAML"),
        ("- 1\n", r"a recipe is a mapping"),
        ("extends: none.yaml\n", r":1: extends none.yaml, which is not there"),
        ("extends: r.yaml\n", r":1: extends itself"),
    ],
)
def test_wrong_structure_names_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, "extends: r.yaml\n", "other.yaml")
    with pytest.raises(RecipeError, match=message) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path)) and "\n" not in str(caught.value)


def test_extends_replaces_and_removes(tmp_path: Path) -> None:
    base = write(tmp_path, BASE, "base.yaml")
    child = "extends: base.yaml\nseeds: [7]\ntrain:\n  max_update: 9\n  lr: null\n  drop: 1\n"
    found = load(tmp_path, child)
    assert (found.flag("train", "max_update"), found.seeds) == (9, (7,))
    assert "lr" not in found.train and found.flag("generate", "beam") == 5
    assert found.train["max_tokens"].where == f"{base}:10"
    with pytest.raises(RecipeError, match=rf"{tmp_path / 'r.yaml'}:6: .* no flag 'drop'"):
        expand(found, "train")


def test_values_of_the_same_corpus_are_merged(tmp_path: Path) -> None:
    """Another corpus takes nothing over from the one before."""
    write(tmp_path, BASE.replace("name: none,", "name: none, options: [--bpe, 7], lowercase: true,"), "base.yaml")
    same = load(tmp_path, "extends: base.yaml\ndata: {source: en, target: de, lowercase: null}\n").corpus
    assert (same.source, same.target, same.options, same.lowercase) == ("en", "de", ("--bpe", "7"), False)
    other = load(tmp_path, "extends: base.yaml\ndata: {name: other, prepare: data-prep/x.sh}\n").corpus
    assert (other.source, other.options, other.lowercase) == ("", (), False)


def test_settings_know_what_changes_a_result(tmp_path: Path) -> None:
    """The hash by which finished runs and lines of results are found again."""

    def settings(text: str) -> str:
        return settings_hash(load(tmp_path, text), "data")

    assert settings(BASE) == PINNED
    base = BASE + "gpus: 2\naverage: {last: 5}\n"
    changed = {
        base.replace("gpus: 2", "gpus: 4"),
        base.replace("last: 5", "last: 6"),
        base.replace("last: 5", "best: 5"),
        base.replace("train:\n", "train:\n  save_interval_updates: 7\n"),  # other checkpoints are averaged
        base + "probing: scratch\n",
        base.replace("beam: 5", "beam: 4"),
        base.replace("max_update: 3", "max_update: 4"),
    }
    assert len({settings(base), *map(settings, changed)}) == 8
    same = (base + "label: x\npaper: {tokenised_bleu: 1}\nprobing: pre-trained\n", base + "seeds: [3]\nthreads: 4\n")
    assert {settings(text) for text in same} == {settings(base)}
    assert settings(BASE.replace("train:\n", "train:\n  log_interval: 7\n")) == settings(BASE)
