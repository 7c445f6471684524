"""The command that draws heat maps (Figure 3 of Nguyen et al. 2020)."""

from __future__ import annotations

import csv
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fairseq_localattn.analysis.attention_weights import Sublayer, collect_masks, collect_weights, cross_attentions
from fairseq_localattn.analysis.evaluation import load_trained
from fairseq_localattn.analysis.heatmap.command import main
from fairseq_localattn.analysis.heatmap.pairs import read_pair
from fairseq_localattn.errors import UsageError
from support.cli import call, fairseq, train_flags

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")  # fairseq's loader, without a GPU

TRAINED = {"window": "transformer_diffwin_tiny", "plain": "transformer_localattn_tiny"}


@pytest.fixture(scope="module")
def checkpoints(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, arch in TRAINED.items():
        # Trained with padding to a multiple of 8, which the maps must not show.
        more = {"disable_validation": True, "required_seq_len_multiple": 8}
        fairseq("train", *train_flags(data, arch, folder / name, updates=3, **more))
    return {name: folder / name / "checkpoint_last.pt" for name in TRAINED}


def paths(checkpoints: dict[str, Path]) -> list[str]:
    return [word for name, path in checkpoints.items() for word in ("--path", str(path), "--name", name)]


def values_of(file: Path) -> dict[tuple[str, str], Tensor]:
    """Read the maps T×S of a CSV, by checkpoint and kind of map."""
    rows = list(csv.DictReader(file.read_text("utf-8").splitlines()))
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        found.setdefault((row["checkpoint"], row["what"]), []).append(float(row["value"]))
    shape = [max(int(row[side]) for row in rows) for side in ("query", "key")]
    return {name: torch.tensor(values).view(shape) for name, values in found.items()}


@pytest.mark.slow
def test_the_command(data: Path, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """Mask, attention of the window model, attention of the plain one: as CSV, picture, page, and as a table."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    file, picture, page = (tmp_path / "new" / f"map.{kind}" for kind in ("csv", "png", "html"))
    outputs = ("--plot", picture, "--csv", file, "--html", page)
    done = call(main, data, *paths(checkpoints), "--sentence", 4, *outputs, "--cpu")
    source, target = ((data.parent / f"test.{x}").read_text().splitlines()[4].split() + ["</s>"] for x in ("xx", "yy"))
    found = values_of(file)
    assert list(found) == [("window", "mask"), ("window", "attention"), ("plain", "attention")]
    torch.testing.assert_close(found["plain", "attention"].sum(1), torch.ones(len(target)), rtol=0, atol=1e-4)
    trained = load_trained(checkpoints["window"], data, cpu=True)
    trained.task.load_dataset("test")
    item = trained.task.dataset("test")[4]
    attentions = cross_attentions(trained.model)
    at = Sublayer("decoder", 1, "encoder_attn", "aw")
    with torch.no_grad(), collect_masks(attentions) as masks, collect_weights(attentions) as weights:
        read = torch.cat([item["target"][-1:], item["target"][:-1]])[None]
        trained.model(item["source"][None], torch.tensor([len(source)]), read)
    torch.testing.assert_close(found["window", "mask"], masks[at][0].mean(0), rtol=0, atol=1e-5)
    torch.testing.assert_close(found["window", "attention"], weights[at][0], rtol=0, atol=1e-5)

    told, title, *lines = done.stdout.splitlines()
    assert told == f"{page}: 0.0 MB; open it in a browser" and page.stat().st_size > 10_000
    assert title.startswith("test, sentence 4: attention to the encoder, layer 1, mean over heads")
    assert [line.split()[0] for line in lines] == ["query", *target]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_given_text_is_the_same_as_its_sentence(
    data: Path, checkpoints: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--source and --target, a head, another site and split; without --plot no matplotlib is needed."""
    source, target = ((data.parent / f"valid.{x}").read_text().splitlines()[0] for x in ("xx", "yy"))
    for name, flags in (
        ("number", ["--sentence", "0", "--gen-subset", "valid"]),
        ("text", ["--source", source, "--target", target]),
        ("shorter", ["--source", source, "--target", " <unk> "]),
    ):
        flags += ["--site", "decoder", "--layer", "1", "--head", "3", "--csv", str(tmp_path / name)]
        main([str(data), *paths(checkpoints), "--cpu", *flags])
    assert (tmp_path / "number").read_text() == (tmp_path / "text").read_text()
    found = values_of(tmp_path / "text")
    length = len(target.split()) + 1
    assert {drawn.shape for drawn in found.values()} == {(length, length)}
    assert {drawn.shape for drawn in values_of(tmp_path / "shorter").values()} == {(2, 2)}
    assert torch.equal(found["plain", "attention"][0], torch.tensor([1.0] + [0.0] * (length - 1)))
    told = capsys.readouterr().out
    assert "a given pair: self-attention of the decoder, layer 1, head 3: the strongest key" in told


MISTAKES = [
    (["--sentence", "12"], "--sentence 12: test has the sentences 0 to 11"),
    (["--sentence", "0", "--gen-subset", "nosuch"], "Dataset not found: nosuch"),
    (["--sentence", "0", "--layer", "3"], "--layer 3: the decoder of window has the layers 1 to 2"),
    (["--sentence", "0", "--layer", "2"], "--site cross --layer 2: window has no window there, but at --site encoder"),
    (["--sentence", "0", "--head", "5"], "--head 5: window has the heads 1 to 4"),
    (["--sentence", "0", "--head", "0"], "--head 0: give mean, or the number of a head"),
    (["--sentence", "0", "--name", "b"], "3 given for 2 --path"),
    (["--sentence", "0", "--path", "nosuch.pt", "--name", "b"], "--path nosuch.pt: no such file"),
    (["--sentence", "0", "--plot", "{data}/dict.xx.txt/a.png"], "File exists"),
    (["--sentence", "0", "--html", "{data}"], "--html {data}"),
    (["--sentence", "0", "--html", "a.html", "--layer", "2"], "--layer 2 changes nothing: the page of --html has all"),
    (["--sentence", "0,1"], "--sentence: table, --plot and --csv show one; give --html alone for several"),
    (["--source", "a " * 1100, "--target", "a"], "the source has 1101 tokens, and transformer_diffwin_tiny reads at"),
    (["--source", "a b"], "which sentence pair? give --sentence N, or --source and --target"),
    (["--source", " ", "--target", "a"], "--source: the text is empty"),
    (["--source", "a", "--target", "no a such no </s>"], "--target: not in the dictionary: no such </s>; give"),
    (["--source", "a", "--target", "a", "--gen-subset", "valid"], "--gen-subset valid changes nothing"),
]


@pytest.mark.parametrize(("flags", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_mistakes_end_in_one_line(flags: list[str], message: str, data: Path, checkpoints: dict[str, Path]) -> None:
    words = [flag.replace("{data}", str(data)) for flag in flags]
    with pytest.raises(UsageError) as error:
        main([str(data), *paths(checkpoints), "--cpu", *words])
    assert message.replace("{data}", str(data)) in str(error.value) and "\n" not in str(error.value)


def test_a_model_of_the_other_direction(data: Path, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """A sentence pair in the other direction cannot be drawn next to the first."""
    other = tmp_path / "other.pt"
    state = torch.load(checkpoints["plain"], weights_only=False)
    state["cfg"]["task"].update(source_lang="yy", target_lang="xx")
    torch.save(state, other)
    with pytest.raises(UsageError, match="turned reads another pair than window: were they trained in the same dir"):
        main([str(data), *paths({"window": checkpoints["window"], "turned": other}), "--sentence", "1", "--cpu"])


def test_a_split_without_target(data: Path, checkpoints: dict[str, Path]) -> None:
    trained = load_trained(checkpoints["plain"], data, cpu=True)
    trained.task.load_dataset("test")
    trained.task.dataset("test").tgt = None
    with pytest.raises(UsageError, match="--sentence 0: test has no target side; give --source and --target"):
        read_pair(trained, Namespace(sentence=0, gen_subset=None))
