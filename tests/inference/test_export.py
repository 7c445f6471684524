"""An exported folder is the model: nothing else is needed, nothing in it is run, and damage is told of in one line."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fairseq_localattn.errors import UsageError
from fairseq_localattn.inference import Options, Translator, load, safetensors, search
from fairseq_localattn.inference.dictionary import Dictionary
from fairseq_localattn.inference.export import main, scores_of
from fairseq_localattn.inference.linear import to_int8
from support.cli import fairseq, make_data, train_flags
from support.inference.models import batch_of, random_model, write_checkpoint
from support.paths import ROOT


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    path = write_checkpoint(folder, *random_model("transformer_man_tiny"))
    codes = folder / "codes"
    codes.write_text("#version: 0.2\na b\n")
    more = ["--bpe", "subword_nmt", "--bpe-codes", str(codes), "--license", "mit"]
    main(["--path", str(path), "--to", str(folder / "model"), *more])
    return folder


def test_a_folder_has_the_translations_of_its_checkpoint(exported: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(exported / "model", tmp_path / "moved")
    model, _ = random_model("transformer_man_tiny")
    tokens = batch_of(model, [5, 9, 7])["src_tokens"]
    one, other = load(exported / "checkpoint_best.pt"), load(moved)
    assert search(one.model, tokens, Options(max_len_b=9)) == search(other.model, tokens, Options(max_len_b=9))
    assert one.source.words == other.source.words and other.options["bpe"] == "subword_nmt"
    assert Path(other.options["bpe_codes"]).parent == moved
    names = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    for found in (dict(each.model.named_parameters(remove_duplicate=False)) for each in (one, other)):
        assert len({found[f"{name}.weight"].data_ptr() for name in names}) == 1
    assert (moved / "model.safetensors").stat().st_size < 1.1 * sum(
        4 * parameter.numel() for parameter in other.model.parameters()
    )
    card = (moved / "README.md").read_text()
    assert "license: mit" in card and "`all: dman > san > ffn`" in card and "xx → yy" in card


def test_text_is_cut_and_made_lower_case_as_in_the_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The checkpoint says the former, its dictionary without capital letters the latter; the folder has both."""
    model, args = random_model("transformer_mma_tiny")
    args.max_source_positions = 12
    path = write_checkpoint(tmp_path, model, args, truncate_source=True)
    main(["--path", str(path), "--to", str(tmp_path / "model")])
    words = [f"w{n}" for n in range(30)]
    for each in path, tmp_path / "model":
        translator = Translator.load(each, options=Options(max_len_b=6))
        assert translator.translate([" ".join(words).upper()]) == translator.translate([" ".join(words[:11])])
    told = "line 1: 31 tokens, and the model reads 12: its beginning is translated"
    assert capsys.readouterr().err == 2 * f"fairseq_localattn: {told}\n"
    assert Translator.load(path, long="empty").best([" ".join(words)]) == [""]


@pytest.mark.slow
def test_from_training_to_translation_without_fairseq(tmp_path: Path) -> None:
    """The text is binarised and trained without the names of its languages, which the data's files have."""
    data, hidden = make_data(tmp_path / "text", train=60), tmp_path / "hidden"
    more = {"lr": 0.01, "warmup_updates": 2, "source_lang": None, "target_lang": None, "disable_validation": True}
    flags = train_flags(data, "transformer_man_tiny", tmp_path, 12, **more)
    fairseq("train", *flags)
    shown = fairseq("generate", data, "--path", tmp_path / "checkpoint_last.pt", "--cpu", "--max-len-b", 12).stdout
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", shown, re.M)
    expected = [(text, float(score) * math.log(2)) for _, score, text in sorted(found, key=lambda row: int(row[0]))]
    hidden.mkdir()
    for name in ("fairseq", "omegaconf", "hydra"):
        (hidden / f"{name}.py").write_text(f"raise ModuleNotFoundError('none', name={name!r})")
    environment = {"PYTHONPATH": f"{hidden}:{ROOT}", "OMP_NUM_THREADS": "1"}

    def run(*words: object, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fairseq_localattn", *map(str, words)]
        return subprocess.run(command, input=given, capture_output=True, text=True, env=environment)

    done = run("export", "--path", tmp_path / "checkpoint_last.pt", "--to", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    (tmp_path / "checkpoint_last.pt").unlink()
    shutil.rmtree(data)
    translate = ("translate", "--path", tmp_path / "model", "--max-len-b", 12, "--scores")
    done = run(*translate, given=(tmp_path / "text" / "test.xx").read_text())
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [text for _, text in lines] == [text for text, _ in expected] and len({text for _, text in lines}) > 2
    assert [float(score) for score, _ in lines] == pytest.approx([score for _, score in expected], abs=2e-4)
    assert "xx → yy" in (tmp_path / "model" / "README.md").read_text()
    wrong = run(*translate, "--beam", 0)
    assert wrong.returncode == 1 and wrong.stderr == "fairseq_localattn: --beam 0: give 1 or more\n"


@pytest.mark.parametrize("name", ["model.json", "README.md", "dict.target.txt", "bpe.codes", "encoder.pt2"])
def test_no_file_is_overwritten(name: str, exported: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match=f"{name} is in it; give a new folder"):
        main(["--path", str(exported / "checkpoint_best.pt"), "--to", str(tmp_path), "--format", "pt2"])
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]


def test_the_card_and_the_folder_follow_the_options(exported: Path, tmp_path: Path) -> None:
    """Codes that are not used need not be there, and only one of two flags for scores is told of."""
    model, args = random_model("transformer_mma_tiny")
    path = write_checkpoint(tmp_path, model, args, bpe="subword_nmt", bpe_codes="/gone", data=".")
    shared = ["--path", str(path), "--to", str(tmp_path / "model")]
    with pytest.raises(UsageError, match="--results and --row: give both"):
        main([*shared, "--row", "mma"])
    main([*shared, "--bpe", "none", "--int8"])
    card = (tmp_path / "model" / "README.md").read_text()
    assert "| 8 bits in linear layers" in card and f"| training data | {Path.cwd().name} |" in card
    assert f"| layers | 2 and 2, {args.encoder_embed_dim} wide |" in card


def test_a_file_of_subwords_needs_its_bpe(exported: Path, tmp_path: Path) -> None:
    """A folder of export has its own ``--bpe``."""
    shared = ["--path", str(exported / "checkpoint_best.pt"), "--to", str(tmp_path)]
    with pytest.raises(UsageError, match="^--bpe-codes: give --bpe subword_nmt as well$"):
        main([*shared, "--bpe-codes", "nosuch"])
    with pytest.raises(UsageError, match="^--sentencepiece-model: give --bpe sentencepiece as well$"):
        Translator.load(exported / "model", sentencepiece_model="nosuch")
    Translator.load(exported / "model", bpe_codes=exported / "codes")


def test_a_model_of_trees_is_not_said_to_translate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_checkpoint(tmp_path, *random_model("transformer_mgsa_tiny"))
    main(["--path", str(path), "--to", str(tmp_path / "model")])
    card = (tmp_path / "model" / "README.md").read_text()
    assert all("search(model, tokens, options, phrases=…)" in said for said in (card, capsys.readouterr().out))
    assert "translate --path" not in card


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["version"], 2, "another version"),
        (["sizes", "encoder", "layers"], 10**9, "layers is 1000000000"),
        (["sizes", "encoder", "layers"], "2", "layers is '2'"),
        (["sizes", "decoder", "embed_dim"], 0, "embed_dim is 0"),
        (["sizes", "decoder", "embed_dim"], 65, "65"),
        (["sizes", "max_source_positions"], 10**12, "max_source_positions is"),
        (["sizes", "texts"], {"encoder": "what"}, "there is no mechanism 'what'"),
        (["sizes", "texts"], ["san"], "texts are damaged"),
        (["sizes", "activation_fn"], "exec", "no activation 'exec'"),
        (["sizes", "unheard"], 1, "not of this version"),
        (["same"], {"x": "y"}, "has no y"),
        (["same"], {"x": ["y"]}, "has no"),
        (["text"], 3, "is damaged"),
    ],
)
def test_a_changed_folder_is_refused(
    keys: list[str], value: object, message: str, exported: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(exported / "model", tmp_path / "changed")
    about = json.loads((folder / "model.json").read_text())
    inner = about
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    (folder / "model.json").write_text(json.dumps(about))
    with pytest.raises(UsageError, match=message) as told:
        load(folder)
    assert "\n" not in str(told.value)


def test_files_outside_of_the_folder_are_not_read(exported: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(exported / "model", tmp_path / "changed")
    text = (folder / "model.json").read_text().replace("bpe.codes", "/etc/passwd")
    assert "passwd" in text
    (folder / "model.json").write_text(text)
    assert load(folder).options["bpe_codes"] == str(folder / "bpe.codes")


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "dict.source.txt"])
@pytest.mark.parametrize("change", ["missing", "empty", "cut", "noise"])
def test_a_damaged_file_is_told_of(name: str, change: str, exported: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(exported / "model", tmp_path / "damaged")
    path = folder / name
    data = path.read_bytes()
    path.unlink()
    if change != "missing":
        path.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "noise": b"\x93" * len(data)}[change])
    with pytest.raises(UsageError) as told:
        load(folder)
    assert str(folder) in str(told.value) and "\n" not in str(told.value)


def test_weights_without_a_number_are_refused(exported: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(exported / "model", tmp_path / "damaged")
    weights = safetensors.read(folder / "model.safetensors")
    weights["encoder.layers.0.fc1.bias"][3] = torch.nan
    safetensors.write(folder / "model.safetensors", weights)
    with pytest.raises(UsageError, match=r"encoder.layers.0.fc1.bias holds NaN"):
        load(folder)


def test_weights_of_8_bits_translate_as_those_that_are_made_at_load(exported: Path, tmp_path: Path) -> None:
    path = exported / "checkpoint_best.pt"
    main(["--path", str(path), "--to", str(tmp_path / "model"), "--int8"])
    size = [(folder / "model.safetensors").stat().st_size for folder in (tmp_path / "model", exported / "model")]
    assert size[0] < 0.5 * size[1]
    tokens = torch.tensor([[5, 6, 7, 2], [9, 8, 7, 2]])
    one, other = to_int8(load(path).model), load(tmp_path / "model").model
    found = (search(model, tokens, Options(max_len_b=9)) for model in (one, other))
    for mine, theirs in zip(*found, strict=True):
        assert mine[0].tokens == theirs[0].tokens and mine[0].score == pytest.approx(theirs[0].score, abs=1e-4)
    with pytest.raises(UsageError, match="has weights of 8 bits, which are not exported again"):
        main(["--path", str(tmp_path / "model"), "--to", str(tmp_path / "again")])
    weights = safetensors.read(tmp_path / "model" / "model.safetensors")
    del weights["encoder.layers.0.fc1.scale"]
    safetensors.write(tmp_path / "model" / "model.safetensors", weights)
    with pytest.raises(UsageError, match=r"has no encoder.layers.0.fc1.scale; export the model again"):
        load(tmp_path / "model")


def test_a_card_has_the_scores_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("scale,row,seed,metric,score,signature,date\nsmall,mma,2,bleu,27.5,a|b,2026-01-02\n")
    assert scores_of(path, "mma")[-1] == "| small | 2 | bleu | 27.5 | a b | 2026-01-02 |"
    with pytest.raises(UsageError, match="--row man: .* has no such row: choose from mma"):
        scores_of(path, "man")
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match="is no CSV of results"):
        scores_of(path, "mma")


def test_a_dictionary_is_written_as_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a 3\n\u00a0x 1\nb\u2028c 2\na 1 #fairseq:overwrite\n", encoding="utf-8")
    read = Dictionary.read(tmp_path / "in")
    assert read.words[4:] == ["a", "\u00a0x", "b\u2028c", "a"] and read.encode(["a"]) == [7, 2]
    read.write(tmp_path / "out")
    assert Dictionary.read(tmp_path / "out").words == read.words
