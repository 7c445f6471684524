"""The heat maps of Figure 3 of Nguyen et al. 2020: the maps, and the command that draws them."""

from __future__ import annotations

import csv
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.analysis.attention_weights import (
    Sublayer,
    collect_masks,
    collect_weights,
    cross_attentions,
    masked_parts,
)
from fairseq_localattn.analysis.evaluation import Trained, load_trained
from fairseq_localattn.analysis.heatmap import command as heatmap
from fairseq_localattn.analysis.heatmap.command import (
    Pair,
    common_layer,
    encode,
    main,
    read_panels,
    select,
    site_attentions,
)
from fairseq_localattn.analysis.heatmap.plot import Panel, draw, table, write_csv
from fairseq_localattn.errors import UsageError
from fairseq_localattn.mechanisms.windowed import WindowAttention
from support.cli import fairseq, make_data, run, train_flags
from support.models import TINY, build, case, dictionary, phrases_of, sentences

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")  # fairseq's loader, without a GPU

# ---------------------------------------------------------------------------------------------- the maps


def as_trained(model: Any) -> Trained:
    words = dictionary()
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words, max_positions=lambda: (1024, 1024))
    return Trained(model, task, "some", torch.device("cpu"))


@pytest.mark.parametrize("arch", TINY)
@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_every_model_has_maps(arch: str, site: str) -> None:
    """T×S; rows sum to 1 unless a window multiplies the attention; head 4 differs from the mean."""
    trained = as_trained(build(arch).eval())
    pair = Pair(*sentences([9, 6]))
    if getattr(trained.model.encoder, "needs_phrases", False):
        pair = Pair(pair.source, pair.target, phrases_of(pair.source[None]))
    layer = 2 if arch == "transformer_localattn_tiny" else 1
    found = select(trained.model, site, layer, "mean", name="it")
    panels = list(read_panels(trained, pair, found, site, head="mean", name="it"))
    fourth = list(read_panels(trained, pair, found, site, head="4", name="it"))
    source, target = (tuple(dictionary()[n] for n in side.tolist()) for side in (pair.source, pair.target))
    queries, keys = {"encoder": (source, source), "decoder": (target, (target[-1], *target[:-1]))}.get(
        site, (target, source)
    )
    masked = [list(masked_parts(module)) for module in found.values()]
    drawn = [panel.what for panel in panels]
    assert (drawn.count("attention"), drawn.count("mask")) == (len(found), sum(map(bool, masked)))
    windows = any(isinstance(part, WindowAttention) for parts in masked for _, part in parts)
    assert windows == arch.startswith("transformer_diffwin")
    for panel, other in zip(panels, fourth, strict=True):
        assert (panel.queries, panel.keys) == (queries, keys)
        assert panel.values.shape == other.values.shape == (len(queries), len(keys))
        assert not torch.allclose(panel.values, other.values, atol=1e-4)
        assert (panel.site, panel.layer, panel.head, other.head) == (site, layer, "mean", "4")
        if panel.what == "attention" and panel.kind != "mw":
            torch.testing.assert_close(panel.values.sum(1), torch.ones(len(queries)), rtol=0, atol=1e-5)
        if site == "decoder":
            assert panel.values.triu(1).abs().max() < 1e-6, "a key after the query"


def test_the_layer_that_is_taken() -> None:
    """The highest with windows in all models that have some; else the highest of all."""
    plain, first, both = build("transformer_localattn_tiny"), case("diffwin-segments"), case("diffwin-all-layers")
    upper = build("transformer_diffwin_tiny", ["--diffwin-cross-layers", "2"])
    assert common_layer([plain], "cross") == common_layer([both, plain], "cross") == 2
    assert common_layer([plain, first, both], "cross") == 1
    assert common_layer([first], "encoder") == 1
    with pytest.raises(UsageError, match="--site cross: no layer will do for all checkpoints"):
        common_layer([first, upper], "cross")
    assert list(site_attentions(upper, "cross")) == [
        Sublayer("decoder", 1, "encoder_attn", "san"),
        Sublayer("decoder", 2, "encoder_attn", "aw"),
    ]


def test_where_there_is_nothing_to_draw() -> None:
    """Each error names the checkpoint and the sites, layers and heads that it has."""
    upper = build("transformer_diffwin_tiny", ["--diffwin-cross-layers", "2", "--diffwin-decoder", "none"])
    for site, layer, head, message in (
        ("cross", 1, "mean", "--site cross --layer 1: it has no window there, but at --site encoder --layer 1; "
                             "--site cross --layer 2"),
        ("decoder", 1, "mean", "--site decoder --layer 1: it has no window there"),
        ("encoder", 0, "mean", "--layer 0: the encoder of it has the layers 1 to 2"),
        ("cross", 3, "mean", "--layer 3: the decoder of it has the layers 1 to 2"),
        ("cross", 2, "5", "--head 5: it has the heads 1 to 4 there"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as error:
            select(upper, site, layer, head, name="it")
        assert str(error.value).startswith(message) and "\n" not in str(error.value)
    assert len(select(upper, "cross", 2, "4", name="it")) == 1
    none = build("transformer_localattn_tiny", ["--no-cross-attention", "--cross-self-attention"])
    with pytest.raises(UsageError, match="--site cross: it has no attention to the encoder in layer 1"):
        select(none, "cross", 1, "mean", name="it")
    with pytest.raises(UsageError, match="no layer will do"):
        common_layer([none], "cross")


def test_text_becomes_tokens() -> None:
    words = dictionary()
    assert encode(" w3  w0 <unk> ", words, "--source").tolist() == [
        words.index("w3"), words.index("w0"), words.unk(), words.eos(),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="--target: not in the dictionary: no such </s>; give"):
        encode("no w1 such no </s>", words, "--target")
    with pytest.raises(UsageError, match="--source: the text is empty"):
        encode(" ", words, "--source")


def panel(values: list[list[float]], **changes: Any) -> Panel:
    standard = dict(checkpoint="a.pt", site="cross", layer=1, sublayer="encoder_attn", kind="aw", head="mean",
                    what="mask", queries=("fr@@", "ères"), keys=("Bro@@", "$x$", "</s>"))  # fmt: skip
    return Panel(**{**standard, **changes}, values=torch.tensor(values))


PANELS = [
    panel([[0.25, 1.75, 0.0], [1.0, -1e-9, 0.5]]),
    panel([[0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], checkpoint="b.pt", what="attention", kind="dman", sublayer="dman2"),
]


def test_table_and_csv(tmp_path: Path) -> None:
    """The table has the strongest key of each query, the CSV every value without clipping."""
    assert table(PANELS) == (
        "query  a.pt: soft mask (AW)  b.pt: attention (DMAN dman2)\n"
        "fr@@   $x$ 1.75              $x$ 0.70\n"
        "ères   Bro@@ 1.00            </s> 0.60"
    )
    write_csv(PANELS, tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert lines[:6] == [
        "checkpoint,site,layer,sublayer,head,what,query,key,query_token,key_token,value",
        "a.pt,cross,1,encoder_attn,mean,mask,1,1,fr@@,Bro@@,0.250000",
        "a.pt,cross,1,encoder_attn,mean,mask,1,2,fr@@,$x$,1.750000",
        "a.pt,cross,1,encoder_attn,mean,mask,1,3,fr@@,</s>,0.000000",
        "a.pt,cross,1,encoder_attn,mean,mask,2,1,ères,Bro@@,1.000000",
        "a.pt,cross,1,encoder_attn,mean,mask,2,2,ères,$x$,0.000000",
    ]
    assert len(lines) == 1 + 2 * 6 and lines[-1] == "b.pt,cross,1,dman2,mean,attention,2,3,ères,</s>,0.600000"


def test_figure() -> None:
    """Panels side by side on one scale, with sub-words as labels (a $ is no formula) and a note of clipped values."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    figure = draw(PANELS, "a title")
    figure.canvas.draw()
    first, second, bar = figure.axes
    for axes, drawn in zip((first, second), PANELS, strict=True):
        (image,) = axes.images
        assert image.get_clim() == (0, 1) and image.cmap(1.0)[:3] < image.cmap(0.5)[:3] < image.cmap(0.0)[:3]
        assert torch.equal(torch.tensor(image.get_array().tolist()), drawn.values)
        assert [label.get_text() for label in axes.get_xticklabels()] == list(drawn.keys)
        assert not any(label.get_parse_math() for label in axes.get_xticklabels())
    assert [label.get_text() for label in first.get_yticklabels()] == list(PANELS[0].queries)
    assert first.get_position().x1 <= second.get_position().x0
    assert "values above 1 are drawn as 1" in bar.get_ylabel()
    assert draw(PANELS[1:], "one").axes[-1].get_ylabel() == "attention weight"
    long = tuple(f"w{n}" for n in range(400))
    huge = draw([panel(torch.rand(400, 400).tolist(), queries=long, keys=long)], "long")
    assert max(huge.get_size_inches()) < 25, "a picture of a long sentence can still be opened"


# ---------------------------------------------------------------------------------------------- the command

TRAINED = {"window": "transformer_diffwin_tiny", "plain": "transformer_localattn_tiny"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("heatmap"), train=40)


@pytest.fixture(scope="module")
def checkpoints(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the checkpoint after three updates by name."""
    folder = tmp_path_factory.mktemp("runs")
    for name, arch in TRAINED.items():
        # Trained with padding to a multiple of 8, which the maps must not show.
        more = {"disable_validation": True, "required_seq_len_multiple": 8}
        fairseq("train", *train_flags(data, arch, folder / name, updates=3, **more))
    return {name: folder / name / "checkpoint_last.pt" for name in TRAINED}


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the levels of loggers, which the command sets for its whole process."""
    monkeypatch.setattr(heatmap, "show_progress_alone", lambda: None)


def paths(checkpoints: dict[str, Path]) -> list[str]:
    return [word for name, path in checkpoints.items() for word in ("--path", str(path), "--name", name)]


def values_of(file: Path) -> dict[tuple[str, str], Tensor]:
    """Read the maps T×S of a CSV, by checkpoint and kind of map."""
    with open(file, encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    found: dict[tuple[str, str], list[list[float]]] = {}
    for row in rows:
        drawn = found.setdefault((row["checkpoint"], row["what"]), [])
        if row["key"] == "1":
            drawn.append([])
        assert (int(row["query"]), int(row["key"])) == (len(drawn), len(drawn[-1]) + 1)
        drawn[-1].append(float(row["value"]))
    return {name: torch.tensor(drawn) for name, drawn in found.items()}


@pytest.mark.slow
def test_the_command_in_the_shell(data: Path, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """Mask, attention of the window model, attention of the plain one: as CSV, as picture, and as a table."""
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")
    file, picture = tmp_path / "new" / "map.csv", tmp_path / "new" / "map.png"
    done = run(sys.executable, "-m", "fairseq_localattn.analysis.heatmap", data, *paths(checkpoints),
               "--sentence", 4, "--plot", picture, "--csv", file, "--cpu")  # fmt: skip
    source, target = ((data.parent / f"test.{x}").read_text().splitlines()[4].split() + ["</s>"] for x in ("xx", "yy"))
    found = values_of(file)
    assert list(found) == [("window", "mask"), ("window", "attention"), ("plain", "attention")]
    assert {drawn.shape for drawn in found.values()} == {(len(target), len(source))}
    for name in TRAINED:
        torch.testing.assert_close(found[name, "attention"].sum(1), torch.ones(len(target)), rtol=0, atol=1e-4)
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

    lines = done.stdout.splitlines()
    assert lines[0].startswith("test, sentence 4: attention to the encoder, layer 1, mean over heads")
    assert [line.split()[0] for line in lines[1:]] == ["query", *target]
    for number, line in enumerate(lines[2:]):
        _, *cells = line.split()
        for (key, value), drawn in zip(zip(cells[::2], cells[1::2], strict=True), found.values(), strict=True):
            assert float(value) == pytest.approx(drawn[number].max().item(), abs=0.0051)
            assert any(source[k] == key for k in (drawn[number] > drawn[number].max() - 1e-5).nonzero().flatten())
    pixels = image.imread(picture)
    assert pixels.shape[0] > 300 and pixels.shape[1] > 600 and pixels.std() > 0.05


def test_given_text_is_the_same_as_its_sentence(
    data: Path, checkpoints: dict[str, Path], tmp_path: Path, quiet: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """--source and --target, a head, another site and split; without --plot no matplotlib is needed."""
    source, target = ((data.parent / f"valid.{x}").read_text().splitlines()[0] for x in ("xx", "yy"))
    for name, flags in (
        ("number", ["--sentence", "0", "--gen-subset", "valid"]),
        ("text", ["--source", source, "--target", target]),
        ("shorter", ["--source", source, "--target", "a"]),
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
    (["--sentence", "-1"], "--sentence -1: test has the sentences 0 to 11"),
    (["--sentence", "0", "--gen-subset", "nosuch"], "Dataset not found: nosuch"),
    (["--sentence", "0", "--layer", "3"], "--layer 3: the decoder of window has the layers 1 to 2"),
    (["--sentence", "0", "--layer", "0"], "--layer 0: the decoder of window has the layers 1 to 2"),
    (["--sentence", "0", "--layer", "2"], "--site cross --layer 2: window has no window there, but at --site encoder"),
    (["--sentence", "0", "--head", "5"], "--head 5: window has the heads 1 to 4"),
    (["--sentence", "0", "--head", "0"], "--head 0: give mean, or the number of a head"),
    (["--sentence", "0", "--name", "b"], "3 given for 2 --path"),
    (["--sentence", "0", "--path", "nosuch.pt", "--name", "b"], "--path nosuch.pt: no such file"),
    (["--sentence", "0", "--csv", "{data}"], "cannot be written"),
    (["--sentence", "0", "--plot", "{data}/dict.xx.txt/a.png"], "File exists"),
    (["--source", "a b", "--target", "a no such"], "--target: not in the dictionary: no such; give"),
    (["--source", "a " * 1100, "--target", "a"], "the source has 1101 tokens, and transformer_diffwin_tiny reads at"),
    (["--source", "a b"], "which sentence pair? give --sentence N, or --source and --target"),
    (["--source", "a", "--target", "a", "--sentence", "1"], "which sentence pair?"),
    ([], "which sentence pair?"),
    (["--source", "a", "--target", "a", "--gen-subset", "valid"], "--gen-subset valid changes nothing"),
]


@pytest.mark.parametrize(("flags", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_mistakes_end_in_one_line(
    flags: list[str], message: str, data: Path, checkpoints: dict[str, Path], quiet: None
) -> None:
    words = [flag.replace("{data}", str(data)) for flag in flags]
    with pytest.raises(UsageError) as error:
        main([str(data), *paths(checkpoints), "--cpu", *words])
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_model_of_the_other_direction(data: Path, checkpoints: dict[str, Path], tmp_path: Path, quiet: None) -> None:
    """A sentence pair in the other direction cannot be drawn next to the first."""
    other = tmp_path / "other.pt"
    state = torch.load(checkpoints["plain"], weights_only=False)
    state["cfg"]["task"].update(source_lang="yy", target_lang="xx")
    torch.save(state, other)
    with pytest.raises(UsageError, match="turned reads another pair than window: were they trained in the same dir"):
        main([str(data), *paths({"window": checkpoints["window"], "turned": other}), "--sentence", "1", "--cpu"])


def test_a_split_without_target(data: Path, checkpoints: dict[str, Path], quiet: None) -> None:
    trained = load_trained(checkpoints["plain"], data, cpu=True)
    trained.task.load_dataset("test")
    dataset = trained.task.dataset("test")
    dataset.tgt = None
    trained.task.load_dataset = lambda split: None
    args = Namespace(sentence=0, gen_subset=None)
    with pytest.raises(UsageError, match="--sentence 0: test has no target side; give --source and --target"):
        heatmap.read_pair(trained, args)


def test_plots_need_matplotlib_and_a_known_format(
    data: Path, monkeypatch: pytest.MonkeyPatch, quiet: None, tmp_path: Path
) -> None:
    """The error comes before a checkpoint is read."""
    command = [str(data), "--path", str(data / "dict.xx.txt"), "--sentence", "0"]
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(UsageError, match=r"--plot needs matplotlib .*pip install 'fairseq_localattn\[plot\]'"):
            main([*command, "--plot", str(tmp_path / "a.png")])
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    with pytest.raises(UsageError, match=r"--plot .*a\.docx: the name must end in one of .*\.png"):
        main([*command, "--plot", str(tmp_path / "a.docx")])
