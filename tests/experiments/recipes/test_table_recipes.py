"""The rows of the five papers' tables: they are all there, and each is what its paper says, down to the built model."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from experiments.measure.metrics import METRICS
from experiments.recipes.recipe import Recipe, load_recipe
from fairseq_localattn.models.architectures import baseline_of, localattn_architectures
from support.tables.paper_numbers import NUMBERS, QUOTED
from support.tables.rows import (
    BASES,
    ROOT,
    ROWS,
    SMALL,
    SMALL_ROWS,
    TABLES,
    attention_of,
    baseline_of_row,
    build,
    chain,
    parsed,
    row,
    same,
    sizes_of,
    source_of,
    values,
)

TRAINED = sorted(name for name in ROWS if row(name).architecture)
MAN = "encoder 1-6 {}>san>ffn relu; decoder 1-6 san>ffn relu; cross 1-6 san relu"
BOTH = "encoder 1-6 dman>san>ffn {0}; decoder 1-6 dman>san>ffn {0}; cross 1-6 san {0}"
WINDOWS = {"encoder": "enc", "decoder": "dec", "cross": "cross"}
MIXED = "encoder 1-6 global,local,forward,backward w=1"
MIXED_8 = "encoder 1-6 global,global,local,local,forward,forward,backward,backward w=1"
NGRAMS = "2 words, ngrams 2,2,3,3,4,4, {}, none"
TREES = "2 words, trees 1,1,2,2,3,3, selfattention, {}"
YANG = "encoder {} gauss predicted 5.0 from input linear heads {}"
TREES_BIG = "encoder 1 4 words, trees 1,1,1,1,2,2,2,2,3,3,3,3, selfattention, onlstm"
# Rows (a regular expression) → what attention their models have (table_rows.attention_of), by the papers.
ATTENTION = {
    r"(?!.*no_positions).*_transformer|mgsa/table1_none|mgsa/table5_\w+_base|diffwin/table4_._layers": "",
    r"man/table1_iwslt14_man|man/table3_c5.*|man/table4_dman|man/table5_man": MAN.format("dman"),
    r"man/table1_iwslt14_man_full": "encoder 1-6 dman>san>ffn none; decoder 1-6 dman>san>ffn none",
    r"man/table1_wmt14_\w+_man": BOTH.format("relu"),
    r"man/table2_\w+_man": BOTH.format("gelu"),
    r"man/table3_c1.*": MAN.format("ffn"),
    r"man/table3_c2.*": MAN.format("san"),
    r"man/table3_c3.*": MAN.format("dman").replace("dman>san", "dman>dman"),
    r"man/table3_c4.*": MAN.format("dman").replace("dman>san", "san>dman"),
    r"man/table4_sman1": MAN.format("sman(sqrt)"),
    r"man/table4_sman2(_valid_b4)?": MAN.format("sman(4)"),
    **{f"man/table4_sman2_valid_b{b}": MAN.format(f"sman({b})") for b in (2, 6, 8)},
    r"diffwin/table1_.*_all|diffwin/table4_all": "encoder 1-3 aw of 1; decoder 1-3 mw of 1; cross 1-3 aw of 5",
    r"diffwin/table1_.*_enc_dec|diffwin/table3_enc_dec_token": "encoder 1-3 aw of 1; decoder 1-3 mw of 1",
    r"diffwin/table1_.*_cross|diffwin/table3_cross_segment": "cross 1-3 aw of 5",
    r"diffwin/table3_cross_token": "cross 1-3 aw of 1",
    r"diffwin/table3_enc_dec_segment": "encoder 1-3 aw of 5; decoder 1-3 mw of 1",
    **{
        f"diffwin/table2_{kind}_{short}_{part}": f"{site} {layers} {kind} of 1"
        for kind in ("aw", "mw")
        for site, short in WINDOWS.items()
        for part, layers in (("partial", "1-3"), ("full", "1-6"))
    },
    r"diffwin/table5_.*_aw": "encoder 1 aw of 1",
    r"diffwin/table5_.*_mw": "encoder 1 mw of 1",
    r"diffwin/table6_aw": "decoder 1-3 aw of 1",
    r"diffwin/table6_mw(_renormalised)?": "decoder 1-3 mw of 1",
    r"diffwin/table1_.*_shaw": "encoder 1-6 distances 16 shared",
    r"diffwin/table1_.*_yang|diffwin/table4_yang": YANG.format("1-3", 8),
    r"diffwin/table5_.*_shaw": "encoder 1-2 distances 16 shared",
    r"diffwin/table5_.*_yang": YANG.format("1", 4),
    r"diffwin/table6_shaw": "decoder 1-3 distances 16 shared",
    r"csan/table1_bi_direct": f"encoder 1-3 {','.join(['forward'] * 4 + ['backward'] * 4)} w=1",
    r"csan/table1_rel_pos": "encoder 1-6 distances 16 shared; decoder 1-6 distances 16 shared",
    r"csan/table1_neighbor": "encoder 1-3 gauss self head from query tanh heads 8",
    r"csan/table1_neighbor_query": "encoder 1-3 gauss self query from query tanh heads 4",
    r"csan/table1_local_hard": "encoder 1-3 gauss predicted 10.0 from query tanh heads 4",
    r"csan/table1_local_soft": "encoder 1-3 gauss predicted query from query tanh heads 8",
    r"csan/table1_block": "encoder 1-6 blocks of 4",
    r"csan/table1_cnns": f"encoder 1-6 {'conv(full 7)>' * 4}san>ffn none; decoder 1-6 san>ffn none",
    r"csan/(table1|fig3)_1d|csan/fig2_1d_window_11|csan/fig2_2d_heads_1": "encoder 1-3 window 11 heads 1",
    r"csan/(table1|fig3)_2d|csan/table2_.*_2d|csan/fig2_2d_heads_3": "encoder 1-3 window 11 heads 3",
    **{f"csan/fig2_1d_window_{n}": f"encoder 1-3 window {n} heads 1" for n in (1, 3, 5, 7, 9, 13, 15)},
    **{f"csan/fig2_2d_heads_{n}": f"encoder 1-3 window 11 heads {n}" for n in (5, 7)},
    r"mma/(table2|table3_de_en|table4|fig2)_mma|mma/table5_w1": MIXED,
    r"mma/(table1_.._..|table3_ja_en)_mma": MIXED_8,
    r"mma/table3_de_en_mma_no_positions": f"{MIXED}; no encoder positions",
    r"mma/table3_ja_en_mma_no_positions": f"{MIXED_8}; no encoder positions",
    r"mma/table3_de_en_transformer_no_positions": "no encoder positions",
    r"mma/table3_ja_en_transformer_no_positions": "no encoder positions",
    **{f"mma/table4_{k}": f"encoder 1-6 global,{k},{k},{k} w=1" for k in ("local", "forward", "backward")},
    **{f"mma/table5_w{w}": MIXED.replace("w=1", f"w={w}") for w in (2, 3, 4)},
    r"mgsa/table1_max": "encoder 1-6 " + NGRAMS.format("max"),
    r"mgsa/table1_lstm": "encoder 1-6 " + NGRAMS.format("lstm"),
    r"mgsa/table1_sans|mgsa/table2_layers_1_6": "encoder 1-6 " + NGRAMS.format("selfattention"),
    r"mgsa/table2_layers_1_3": "encoder 1-3 " + NGRAMS.format("selfattention"),
    r"mgsa/(table2_layers_1|(table3|fig2|table5_pretrained)_ngram)": "encoder 1 " + NGRAMS.format("selfattention"),
    r"mgsa/(table3_syntactic(_tags)?|fig2_syntactic|table5_pretrained_syntactic)": "encoder 1 " + TREES.format("none"),
    r"mgsa/table3_lstm": "encoder 1 " + TREES.format("lstm"),
    r"mgsa/(table3_onlstm|table4_base_.*_mgsa|(fig2|table5_pretrained)_interaction)": "encoder 1 "
    + TREES.format("onlstm"),
    r"mgsa/table5_scratch_ngram": "encoder 1-3 " + NGRAMS.format("selfattention"),
    r"mgsa/table5_scratch_syntactic": "encoder 1-3 " + TREES.format("none"),
    r"mgsa/table5_scratch_interaction": "encoder 1-3 " + TREES.format("onlstm"),
    r"mgsa/table4_big_.*_mgsa": TREES_BIG,
}  # fmt: skip
TAGGED = (
    {f"mgsa/{row}" for row in ("table3_syntactic_tags", "table3_lstm", "table3_onlstm")}
    | {
        "mgsa/fig2_syntactic",
        "mgsa/fig2_interaction",
    }
    | {f"mgsa/table4_{size}_{pair}_mgsa" for size in ("base", "big") for pair in ("en_de", "zh_en")}
)


# --- which rows there are


def test_every_table_has_its_rows() -> None:
    assert set(ROWS) == NUMBERS.keys()


def test_every_base_is_extended_by_a_row() -> None:
    sources = [source_of(name) for name in SMALL_ROWS]
    tops = {path for source in sources for path in source.extends.values() if path is not None}
    used = {path for top in tops for path in chain(top)}
    of_quickstart = {"toy_de_en", "toy_en_de_trees"}
    assert [name for name, path in (BASES | SMALL).items() if path not in used and name not in of_quickstart] == []
    for path in (BASES | SMALL).values():
        found = load_recipe(path)
        assert not found.architecture and not found.label and not found.paper, path


def test_tables_say_what_they_are() -> None:
    """Each begins with a sentence that has the table's number and its paper."""
    for name, table in TABLES.items():
        kind, number = re.fullmatch(r"([a-z]+)(\d*)", table.name).groups()  # type: ignore[union-attr]
        word = {"table": "Table", "fig": "Figure"}.get(kind)
        begins = rf"{word} {number} of [A-Z][a-z]+ et al\. 20\d\d: " if word else "In no table of [A-Z]"
        assert re.match(begins, table.title), name


# --- each row


@pytest.mark.parametrize("name", [*BASES, *ROWS])
def test_the_batch_is_the_one_of_the_comment(name: str) -> None:
    """'Effective batch: 2 GPUs x 8,192 tokens x 1 (update_freq) = 16,384 tokens.', nearest in what a file extends."""
    path = BASES.get(name) or source_of(name).extends["full"]
    assert path is not None
    sentence = r"# Effective batch: (\d+) GPUs? x ([\d,]+) (tokens|sentences) x (\d+) \(update_freq\) = ([\d,]+) \3\.$"
    stated = next(filter(None, (re.search(sentence, each.read_text("utf-8"), re.MULTILINE) for each in chain(path))))
    gpus, size, unit, freq, total = (part.replace(",", "") for part in stated.groups())
    found = load_recipe(path) if name in BASES else row(name)
    key = {"tokens": "max_tokens", "sentences": "batch_size"}[unit]
    assert (found.gpus, found.flag("train", key), *found.flag("train", "update_freq")) == (
        int(gpus),
        int(size),
        int(freq),
    )
    assert int(gpus) * int(size) * int(freq) == int(total)


@pytest.mark.parametrize("name", ROWS)
def test_the_papers_numbers(name: str) -> None:
    found = row(name)
    assert found.paper == NUMBERS[name]
    if found.metric not in ("locality", "probing", "bleu_by_length", "bleu_by_ngram") and found.paper:
        assert found.metric in found.paper
    assert found.label and found.seeds and found.hardware == "gpu"
    assert (found.lead == 3) == (name == "man/table2_cnndm_lead3") == (not found.architecture)


def test_the_papers_quoted_numbers() -> None:
    found = {
        f"{table.paper}/{table.name}": [
            (label.partition(" (")[0], [n / 1e6 if key == "parameters" else n for key, n in numbers.items()])
            for label, numbers in table.quoted.items()
        ]
        for table in TABLES.values()
        if table.quoted
    }
    expected = {
        name: [
            (line[: match.start()].strip(), [float(cell) for cell in match[0].split() if cell != "-"])
            for line in filter(str.strip, lines.splitlines())
            if (match := re.search(r"(\s+(\d+(\.\d+)?|-))+$", line))
        ]
        for name, lines in QUOTED.items()
    }
    assert found == expected


@pytest.mark.parametrize("name", TRAINED)
def test_fairseq_has_the_values_of_the_recipe(name: str) -> None:
    found = row(name)
    sections = ["train", *(section for section in ("generate", "eval_lm") if found.section(section))]
    for section in sections:
        args = parsed(name, section)
        for key, value in values(found, section).items():
            assert same(value, getattr(args, key)), f"{section}: {key} is {getattr(args, key)!r}, not {value!r}"
    reads = {"sentence_prediction": ["train"], "language_modeling": ["train", "eval_lm"]}
    assert sections == reads.get(found.flag("train", "task"), ["train", "generate"])
    machine = {"fp16", "bf16", "cpu", "amp", "seed", "ddp_backend", "distributed_world_size", "num_workers"}
    assert not machine & {key for section in sections for key in values(found, section)}, "these are the runner's"


@pytest.mark.parametrize("name", TRAINED)
def test_the_model_is_the_one_that_is_stated(name: str) -> None:
    """Sizes, parameters, dictionaries, and the attention by layer that the row's flags are for."""
    stated = dict(row(name).sizes)
    model = build(name)
    found = sizes_of(model)
    words, dictionary = found.pop("words"), stated.pop("dictionary")
    if not stated.get("decoder_layers", 1):
        assert not hasattr(model, "decoder") and stated.pop("decoder_layers") == 0
        words.setdefault("decoder", dictionary[1])
    assert found == stated
    ends = dictionary if isinstance(dictionary, list) else [dictionary] * 2
    assert words.get("encoder", ends[0]) == ends[0]
    assert {words.get(side, ends[1]) for side in ("decoder", "output")} == {ends[1]}
    shared = row(name).flag("train", "share_all_embeddings", False)
    assert not (shared and isinstance(dictionary, list)), "what is shared has one dictionary"
    expected = {text for pattern, text in ATTENTION.items() if re.fullmatch(pattern, name)}
    assert expected == {attention_of(model)}
    assert ("tags" in found) == (name in TAGGED)


@pytest.mark.parametrize("name", [name for name in ROWS if baseline_of_row(name)])
def test_the_baseline_is_trained_alike(name: str) -> None:
    """Data, updates and flags of training are alike; only the model's own flags differ."""
    found, baseline = row(name), row(baseline_of_row(name))
    assert found.metric == baseline.metric
    for key in ("gpus", "average", "checkpoint", "seeds"):
        assert getattr(found, key) == getattr(baseline, key), key

    def training(of: Recipe) -> dict[str, Any]:
        own = re.compile(
            r"(man|diffwin|csan|mma|mgsa|relpos|localness|qanet)_\w+|(en|de)coder_normalize_before|task|criterion|tag_loss_weight"
        )
        return {key: value for key, value in values(of, "train").items() if not own.fullmatch(key)}

    expected = training(baseline)
    if name == "man/table1_iwslt14_man_full":
        expected["warmup_updates"] = 8000
    assert training(found) == expected and values(found, "generate") == values(baseline, "generate")

    def data(of: Recipe) -> Any:
        options = tuple(option for option in of.corpus.options if option not in ("--trees", "en", "zh"))
        return replace(of.corpus, options=options, smoke=None)

    assert data(found) == data(baseline)
    arch, plain = found.architecture, baseline.architecture
    if not name.endswith("_no_positions") and arch in localattn_architectures():
        assert plain == baseline_of(arch)


@pytest.mark.parametrize("name", TRAINED)
def test_the_checkpoints_that_are_measured_are_written(name: str) -> None:
    """Averages have their checkpoints, the last update's among them; the best is among those that are validated."""
    found = row(name)
    interval, updates = found.flag("train", "save_interval_updates"), found.flag("train", "max_update")
    assert updates % interval == 0 and found.flag("train", "no_epoch_checkpoints") is True
    average = found.average
    assert not average or found.checkpoint == "last"
    if average:
        assert average["last"] == found.flag("train", "keep_interval_updates") and average["last"] * interval <= updates
    if found.flag("train", "max_epoch"):
        assert not average, "the last update is not known before"


@pytest.mark.parametrize("name", ROWS)
def test_the_data_of_a_row(name: str) -> None:
    """Its preparation is there; what reads trees has them; translation has a pair of languages."""
    found = row(name)
    data = found.corpus
    assert (ROOT / data.prepare).is_file(), data.prepare
    needs = found.flag("train", "task") == "translation_with_phrases"
    for options in (data.options, data.smoke or ()):
        assert ("--trees" in options) == needs
        if needs:
            assert options[options.index("--trees") + 1] == data.source
    assert bool(data.source) == bool(data.target) == bool(found.generate)
    if dict(data.tests) != {"test": "test"}:
        nist = dict(zip(("MT03", "MT04", "MT05", "MT06"), ("test", "test1", "test2", "test3"), strict=True))
        wanted = {"csan": {"newstest2013": "valid"}, "man": {"valid": "valid"}, "mgsa": nist}
        wanted["mgsa"] = wanted["csan"] if name.startswith("mgsa/fig2") else nist
        assert data.tests == wanted[name.split("/")[0]]
    others = "csan/fig2|mgsa/fig2|mgsa/table4_.*zh_en|man/table4_sman2_valid"
    assert bool(data.tests.keys() - {"test"}) == bool(re.match(others, name))


# --- what rows have in common


def test_metrics_beside_the_papers() -> None:
    """Each is a metric that rows of its data have, beside a number that the paper has."""
    for name in ROWS:
        for metric, of_paper in row(name).beside.items():
            assert metric in METRICS and of_paper in row(name).paper, name
            assert (metric, of_paper) in {("compound_bleu", "tokenised_bleu"), ("rougeL_swapped", "rougeL")}
    assert all(row(name).beside for name in ROWS if name.startswith("man/table2"))


def test_figures_measure_models_of_the_tables() -> None:
    """One training under two names has one hash of settings, so that it is trained once."""
    pairs = {"fig2_transformer": "table1_transformer", "fig2_1d_window_11": "table1_1d", "fig2_2d_heads_3": "table1_2d"}
    for figure, table in pairs.items():
        one, other = row(f"csan/{figure}"), row(f"csan/{table}")
        assert one.architecture == other.architecture
        assert values(one, "train") == values(other, "train")


def test_rows_with_tags_weigh_their_loss() -> None:
    tagged = {name for name in ROWS if row(name).flag("train", "tag_loss_weight") == 0.001}
    assert tagged == TAGGED == {name for name in ROWS if row(name).flag("train", "mgsa_tags")}
