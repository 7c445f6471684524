"""The locality measure (Eq. 13 of Fan et al. 2021): the function, the weights that it is given, and the command."""

from __future__ import annotations

import csv
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_localattn.analysis.attention_weights import Sublayer, collect_weights, self_attentions
from fairseq_localattn.analysis.evaluation import Trained, load_trained, padding_masks, read_split
from fairseq_localattn.analysis.locality import command as locality
from fairseq_localattn.analysis.locality.command import main, measure, select, share_within
from fairseq_localattn.analysis.locality.report import Row, draw, table
from fairseq_localattn.errors import UsageError
from support.cli import fairseq, make_data, run, train_flags
from support.models import batch, build

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")  # fairseq's loader, without a GPU

# ---------------------------------------------------------------------------------------------- the function


def by_loops(weights: Tensor, window: int) -> float:
    """Return the inner sums of Eq. 13 for one sentence, T×T without padding, by loops."""
    length = len(weights)
    total = 0.0
    for j in range(length):
        for k in range(length):
            if abs(k - j) <= window:
                total += float(weights[j, k])
    return total / length


def padded(sentences: list[Tensor], left: bool, width: int) -> tuple[Tensor, Tensor]:
    """Return sentences T×T as one batch and its padding mask; padded places hold 7, which must not count."""
    weights = torch.full((len(sentences), width, width), 7.0)
    padding = torch.ones(len(sentences), width, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        real = slice(width - len(sentence), width) if left else slice(0, len(sentence))
        weights[row, real, real] = sentence
        padding[row, real] = False
    return weights, padding


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    windows=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    room=st.integers(0, 2),
    left=st.booleans(),
    seed=st.integers(0, 99),
)
def test_it_is_equation_13(lengths: list[int], windows: list[int], room: int, left: bool, seed: int) -> None:
    """Against loops; sentences of length 1, padding on either side, and more of it than needed."""
    generator = torch.Generator().manual_seed(seed)
    sentences = [torch.rand(n, n, generator=generator).softmax(-1) for n in lengths]
    weights, padding = padded(sentences, left, max(lengths) + room)
    wanted = torch.tensor([[by_loops(s, w) for w in windows] for s in sentences], dtype=torch.double)
    torch.testing.assert_close(share_within(weights, padding, windows), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("left", [True, False])
def test_closed_forms(left: bool) -> None:
    """Uniform attention, attention to oneself, to the next word; a window as long as the sentence holds all of it."""
    lengths, windows = [1, 4, 9], [0, 1, 2, 4, 9, 10**30]
    uniform, padding = padded([torch.full((n, n), 1 / n) for n in lengths], left, 9)
    pairs = [[sum(min(n, j + w + 1) - max(0, j - w) for j in range(n)) for w in windows] for n in lengths]
    wanted = torch.tensor(pairs, dtype=torch.double) / torch.tensor([[n * n] for n in lengths])
    torch.testing.assert_close(share_within(uniform, padding, windows), wanted, rtol=0, atol=1e-6)
    assert wanted[2].tolist() == pytest.approx([9 / 81, 25 / 81, 39 / 81, 61 / 81, 1, 1])

    itself, padding = padded([torch.eye(n) for n in lengths], left, 9)
    assert share_within(itself, padding, windows).eq(1).all()
    following, padding = padded([torch.eye(n).roll(1, dims=1) for n in lengths], left, 9)  # the last one sees the first
    assert share_within(following, padding, [0, 1]).tolist() == [[1, 1], [0, 3 / 4], [0, 8 / 9]]


def test_batches_add_up_sentence_by_sentence() -> None:
    """The mean over sentences, not over tokens; None is no padding; fp16 weights are summed in fp64."""
    short, long = torch.eye(2), torch.eye(8).flip(0)
    together, padding = padded([short, long], True, 8)
    apart = torch.cat([share_within(s[None], None, [0, 1]) for s in (short, long)])
    assert share_within(together, padding, [0, 1]).tolist() == apart.tolist() == [[1, 1], [0, 2 / 8]]
    assert share_within(together.half(), padding, [0]).dtype == torch.double


def test_it_refuses_what_is_no_self_attention() -> None:
    with pytest.raises(ValueError, match="not 2×3×4"):
        share_within(torch.rand(2, 3, 4), None, [1])
    with pytest.raises(ValueError, match="not -1"):
        share_within(torch.rand(2, 3, 3), None, [1, -1])


# ---------------------------------------------------------------------------------------------- the weights

SAN, DMAN, MMA, CSAN = ("self_attn", "san"), ("dman", "dman"), ("self_attn", "mma"), ("self_attn", "csan")
# (architecture, flags) → the (name, kind) of the sublayers in each encoder layer and in each decoder layer
MODELS: dict[str, tuple[str, list[str], list[list[tuple[str, str]]], list[list[tuple[str, str]]]]] = {
    "plain": ("transformer_localattn_tiny", [], [[SAN]] * 2, [[SAN]] * 2),
    "layer-drop": ("transformer_localattn_tiny", ["--encoder-layerdrop", "0.9"], [[SAN]] * 2, [[SAN]] * 2),
    "mma": ("transformer_mma_tiny", ["--checkpoint-activations"], [[MMA]] * 2, [[SAN]] * 2),
    "csan": ("transformer_csan_tiny", ["--encoder-normalize-before"], [[CSAN], [SAN]], [[SAN]] * 2),
    "man": ("transformer_man_tiny", [], [[DMAN, SAN]] * 2, [[DMAN, SAN]] * 2),
}


def hooks_of(model: torch.nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("left", [True, False])
def test_weights_are_read_and_nothing_else_changes(name: str, left: bool) -> None:
    """Every self-attention is found and its rows sum to 1; the logits are the same, and no hook is left."""
    arch, flags, encoder, decoder = MODELS[name]
    model = build(arch, flags)
    attentions = self_attentions(model)  # still in training mode, in which LayerDrop hides layers
    model.eval()
    sample = batch([9, 4, 13, 1], [7, 11, 3, 5], left)["net_input"]
    with torch.no_grad():
        before, _ = model(**sample)
        with collect_weights(attentions) as weights:
            assert hooks_of(model) == 2 * len(attentions)
            during, _ = model(**sample)
        after, _ = model(**sample)
    assert hooks_of(model) == 0
    padding = padding_masks(model, sample)
    real = ~padding["decoder"]
    torch.testing.assert_close(during[real], before[real], rtol=0, atol=1e-5)
    assert torch.equal(after[real], before[real])
    wanted = [
        Sublayer(stack, number, *pair)
        for stack, layers in (("encoder", encoder), ("decoder", decoder))
        for number, pairs in enumerate(layers, start=1)
        for pair in pairs
    ]
    assert list(weights) == wanted, "in the order in which they run"
    assert set(attentions) == set(wanted)
    for sublayer, found in weights.items():
        mask = padding[sublayer.stack]
        assert found.shape == (4, mask.size(1), mask.size(1))
        sums = found.masked_fill(mask[:, None, :], 0).sum(-1)[~mask]
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-5)
        if sublayer.stack == "decoder":
            assert found.triu(1)[~mask].eq(0).all(), "a key after the query"


def test_fairseqs_attention_and_ours_tell_the_same() -> None:
    """Two implementations of the same model, with the same weights."""
    nowhere = ["--mma-encoder-layers", "none"]
    sample = batch([9, 4, 13, 1], [7, 11, 3, 5])["net_input"]
    told = []
    for model in (build("transformer_localattn_tiny").eval(), build("transformer_mma_tiny", nowhere).eval()):
        with collect_weights(self_attentions(model)) as weights, torch.no_grad():
            model(**sample)
        told.append(weights)
        padding = padding_masks(model, sample)
    assert len(told[0]) == 4 and list(told[0]) == list(told[1])
    for sublayer, theirs in told[0].items():
        real = ~padding[sublayer.stack]
        torch.testing.assert_close(told[1][sublayer][real], theirs[real], rtol=0, atol=1e-6)


def test_hooks_go_with_an_error_and_other_attention_is_left_out() -> None:
    model = build("transformer_localattn_tiny", ["--no-cross-attention", "--cross-self-attention"]).eval()
    attentions = self_attentions(model)
    assert {sublayer.stack for sublayer in attentions} == {"encoder"}
    with pytest.raises(ZeroDivisionError), collect_weights(attentions):
        raise ZeroDivisionError
    assert hooks_of(model) == 0


# ---------------------------------------------------------------------------------------------- the command

WINDOWS = [0, 1, 2, 5]
TRAINED = {name: MODELS[name][0] for name in ("plain", "mma", "man")}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("locality"), train=40)


@pytest.fixture(scope="module")
def checkpoints(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the checkpoint after two updates by name."""
    folder = tmp_path_factory.mktemp("runs")
    for name, arch in TRAINED.items():
        fairseq("train", *train_flags(data, arch, folder / name, updates=2, disable_validation=True))
    return {name: folder / name / "checkpoint_last.pt" for name in TRAINED}


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the levels of loggers, which the command sets for its whole process."""
    monkeypatch.setattr(locality, "show_progress_alone", lambda: None)


@pytest.fixture(scope="module")
def told(data: Path, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Any]]:
    """Return what the command prints for the three checkpoints, and the rows of its CSV."""
    file = tmp_path_factory.mktemp("out") / "new" / "locality.csv"
    command: list[object] = [sys.executable, "-m", "fairseq_localattn.analysis.locality", data, "--csv", file]
    for name, path in checkpoints.items():
        command += ["--path", path, "--name", name]
    done = run(*command, "--stack", "both", "--windows", ",".join(map(str, WINDOWS)), "--max-tokens", 30, "--cpu")
    with open(file, newline="") as lines:
        return done.stdout, list(csv.DictReader(lines))


def one_by_one(trained: Trained) -> tuple[dict[tuple[str, ...], list[float]], Counter[str]]:
    """Return Eq. 13 by loops over single sentences, in percent by sublayer and window, and the tokens of each stack."""
    trained.task.load_dataset("test")
    dataset = trained.task.dataset("test")
    shares: dict[tuple[str, ...], list[float]] = {}
    tokens: Counter[str] = Counter()
    for n in range(len(dataset)):
        sample = dataset.collater([dataset[n]])
        with collect_weights(self_attentions(trained.model)) as weights, torch.no_grad():
            trained.model(**sample["net_input"])
        tokens["encoder"] += len(dataset[n]["source"])
        tokens["decoder"] += len(dataset[n]["target"])
        for at, found in weights.items():
            for window in WINDOWS:
                key = (at.stack, str(at.layer), at.name, at.kind, str(window))
                shares.setdefault(key, []).append(100 * by_loops(found[0], window))
    return shares, tokens


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_the_command_measures_the_split(
    name: str, data: Path, checkpoints: dict[str, Path], told: tuple[str, list[Any]]
) -> None:
    """The CSV, from padded batches, agrees with loops over single sentences; all 12 sentences count."""
    rows = [row for row in told[1] if row["checkpoint"] == name]
    shares, tokens = one_by_one(load_trained(checkpoints[name], data, cpu=True))
    keys = [tuple(row[c] for c in ("stack", "layer", "sublayer", "kind", "window")) for row in rows]
    assert len(keys) == len(set(keys)) and set(keys) == set(shares)
    _, _, encoder, decoder = MODELS[name]
    assert len(keys) == len(WINDOWS) * sum(map(len, encoder + decoder))
    for key, row in zip(keys, rows, strict=True):
        assert len(shares[key]) == int(row["sentences"]) == 12
        assert float(row["share"]) == pytest.approx(sum(shares[key]) / 12, abs=2e-4), key
        assert int(row["tokens"]) == tokens[row["stack"]]
        assert (row["architecture"], row["split"]) == (TRAINED[name], "test")


@pytest.mark.slow
def test_the_command_prints_a_table(told: tuple[str, list[Any]]) -> None:
    """In the shape of Table 5: a row for each w and sublayer, a column for each layer."""
    printed, rows = told
    man = printed[printed.index("man (transformer_man_tiny), test: 12 sentences") :]
    lines = [line.split() for line in man.split("decoder,")[0].splitlines()[2:]]
    assert lines[0] == ["w", "#1", "#2"]
    pairs = [(kind, str(window)) for window in WINDOWS for kind in ("dman", "san")]
    for (kind, window), (label, w, *cells) in zip(pairs, lines[1:], strict=True):
        key = ("man", "encoder", kind, window)
        shares = [
            float(r["share"]) for r in rows if tuple(r[c] for c in ("checkpoint", "stack", "kind", "window")) == key
        ]
        assert (label, w) == (kind.upper(), window)
        assert [float(cell) for cell in cells] == pytest.approx(shares, abs=0.0051)


def row(**changes: Any) -> Row:
    standard = dict(checkpoint="a.pt", architecture="x", split="test", stack="encoder", layer=1, sublayer="self_attn",
                    kind="san", window=1, share=50.0, sentences=1234, tokens=56789)  # fmt: skip
    return Row(**{**standard, **changes})


def test_table_with_holes_and_two_sublayers_of_a_kind() -> None:
    rows = [row(share=12.345), row(sublayer="dman", kind="dman", share=100.0, layer=3)]
    assert table([*rows, row(sublayer="dman2", kind="dman", share=7.0, layer=3)]) == (
        "a.pt (x), test: 1,234 sentences\n"
        "encoder, 56,789 tokens: % of attention within w\n"
        "               w      #1      #3\n"
        "SAN            1   12.35       -\n"
        "DMAN dman      1       -  100.00\n"
        "DMAN dman2     1       -    7.00\n"
    )


def test_plot(data: Path, checkpoints: dict[str, Path], tmp_path: Path, quiet: None) -> None:
    """One figure of two checkpoints, written as a picture; its lines are the rows."""
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")
    picture = tmp_path / "new" / "locality.png"
    paths = [word for name in ("plain", "man") for word in ("--path", str(checkpoints[name]), "--name", name)]
    main([str(data), *paths, "--plot", str(picture), "--cpu"])
    pixels = image.imread(picture)
    assert pixels.shape[0] > 300 and pixels.shape[1] > 600 and pixels.std() > 0.05

    rows = [row(window=w, share=s, kind=k, sublayer=k) for k in ("dman", "san") for w, s in ((0, 10.0), (4, 60.0))]
    figure = draw([*rows, row(checkpoint="b.pt", stack="decoder", share=30.0)])
    panels = [{line.get_label(): line.get_xydata().tolist() for line in axes.lines} for axes in figure.axes]
    points = [[0, 10], [4, 60]]
    assert panels == [{"DMAN #1": points, "SAN #1": points}, {}, {}, {"SAN #1": [[1, 30]]}]


def test_chosen_layers_and_sentences_that_are_too_long(data: Path, checkpoints: dict[str, Path]) -> None:
    trained = load_trained(checkpoints["mma"], data, cpu=True)
    chosen = select(trained, ["encoder"], "2")
    assert list(chosen) == [Sublayer("encoder", 2, "self_attn", "mma")]
    trained.model.max_positions = lambda: (6, 6)
    fitting = [line for line in (data.parent / "test.xx").read_text().splitlines() if len(line.split()) + 1 <= 6]
    split = read_split(trained, "test")
    assert 0 < len(fitting) < 12 and (split.sentences, split.too_long) == (len(fitting), 12 - len(fitting))
    measured = measure(trained, split, chosen, [9])
    assert measured.sentences == len(fitting)
    assert measured.tokens["encoder"] == sum(len(line.split()) + 1 for line in fitting)
    assert measured.shares == {Sublayer("encoder", 2, "self_attn", "mma"): [pytest.approx(1)]}
    trained.model.max_positions = lambda: (3, 3)
    with pytest.raises(UsageError, match="no sentence"):
        read_split(trained, "test")


MISTAKES = [
    (["--windows=-1"], "--windows -1: give whole numbers from 0"),
    (["--windows", "1,,2"], "--windows 1,,2: give whole numbers from 0"),
    (["--layers", "1,9"], "layer 9 is asked for, and the stack has 2"),
    (["--layers", "none"], "no self-attention there"),
    (["--gen-subset", "nosuch"], "Dataset not found: nosuch"),
    (["--path", "nosuch.pt"], "--path nosuch.pt: no such file"),
    (["--name", "a", "--name", "b"], "2 given for 1 --path"),
    (["--max-tokens", "3"], "--max-tokens 3: test has a sentence of"),
    (["--csv", "{data}"], "cannot be written"),
    (["--csv", "{data}/dict.xx.txt/a.csv"], "File exists"),
]


@pytest.mark.parametrize(("flags", "message"), MISTAKES, ids=lambda x: x if isinstance(x, str) else None)
def test_mistakes_end_in_one_line(
    flags: list[str], message: str, data: Path, checkpoints: dict[str, Path], quiet: None
) -> None:
    words = [flag.replace("{data}", str(data)) for flag in flags]
    with pytest.raises(UsageError) as error:
        main([str(data), "--path", str(checkpoints["mma"]), "--cpu", *words])
    assert message in str(error.value) and "\n" not in str(error.value)


def test_wrong_data_and_names(data: Path, checkpoints: dict[str, Path], tmp_path: Path, quiet: None) -> None:
    """No such folder; another dictionary than in training; two checkpoints of one name."""
    path = str(checkpoints["mma"])
    with pytest.raises(UsageError, match="nosuch"):
        main([str(tmp_path / "nosuch"), "--path", path, "--cpu"])
    other = tmp_path / "other"
    shutil.copytree(data, other)
    for language in ("xx", "yy"):
        with open(other / f"dict.{language}.txt", "a") as file:
            file.write("more 1\n")
    with pytest.raises(UsageError, match="does not fit the dictionaries"):
        main([str(other), "--path", path, "--cpu"])
    with pytest.raises(UsageError, match="two checkpoints are called"):
        main([str(data), "--path", path, "--path", path, "--cpu"])
    assert locality.checkpoint_names(["a/last.pt", "b/last.pt"], []) == ["a/last.pt", "b/last.pt"]
    assert locality.checkpoint_names(["a/last.pt", "b/best.pt"], []) == ["last.pt", "best.pt"]


@pytest.mark.slow
def test_a_mistake_in_the_shell(data: Path, checkpoints: dict[str, Path]) -> None:
    """One line on stderr, exit status 1, no traceback."""
    done = run(sys.executable, "-m", "fairseq_localattn.analysis.locality", data, "--path", checkpoints["mma"],
               "--layers", "3", "--cpu", check=False)  # fmt: skip
    said = [line for line in done.stderr.splitlines() if not line.startswith("INFO:")]
    assert done.returncode == 1 and done.stdout == "" and len(said) == 1 and "layer 3 is asked for" in said[0], said


def test_plots_need_matplotlib_and_a_known_format(data: Path, monkeypatch: pytest.MonkeyPatch, quiet: None) -> None:
    """The error comes before a checkpoint is read."""
    some = str(data / "dict.xx.txt")
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(UsageError, match=r"--plot needs matplotlib .*pip install 'fairseq_localattn\[plot\]'"):
            main([str(data), "--path", some, "--plot", "a.png"])
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    with pytest.raises(UsageError, match=r"--plot a\.docx: the name must end in one of .*\.png"):
        main([str(data), "--path", some, "--plot", "a.docx"])
