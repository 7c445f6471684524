"""The tables of speeds against fairseq's own, from results/benchmarks/ and the papers' rows: models, and attentions."""

from __future__ import annotations

from pathlib import Path

from experiments.measure.csv_files import Line, read_lines
from experiments.recipes.tables import find_table
from experiments.report.papers import Row
from experiments.report.text import markdown

HEADER = (
    "d=512, 6+6 layers",
    "paper: steps/s relative to its Transformer",
    "training step",
    "efficiency",
    "generation, beam 5",
    "step in bf16 against fairseq in bf16",
    "step in bf16 against fairseq in fp32",
    "generation in bf16 against fairseq in bf16",
    "generation in bf16 against fairseq in fp32",
)
# The systems of benchmarks/systems.py: what they are called, and the row of a paper that has their steps a second.
SYSTEMS = {
    "mma": ("MMA", ""),
    "csan_1d": ("CSAN-1D", "csan/table1/1d"),
    "csan_2d": ("CSAN-2D", "csan/table1/2d"),
    "man_encoder": ("MAN, encoder", ""),
    "man": ("MAN, both stacks", ""),
    "diffwin": ("DiffWin, Enc(AW)-Cr(AW,Seg)-Dec(MW)", "diffwin/table4/all"),
    "mgsa_ngram": ("MG-SA, n-grams", "mgsa/table3/ngram"),
    "mgsa_syntactic": ("MG-SA, constituents, tags, ON-LSTM", "mgsa/table3/onlstm"),
    "relpos": ("Shaw et al. 2018", "csan/table1/rel_pos"),
    "localness": ("Yang et al. 2018, LOCAL_SOFT", "csan/table1/local_soft"),
    "local_hard": ("Luong et al. 2015, LOCAL_HARD", "csan/table1/local_hard"),
    "neighbor": ("Sperber et al. 2018, NEIGHBOR", "csan/table1/neighbor"),
    "blocksan": ("Bi-BloSAN, BLOCK", "csan/table1/block"),
    "qanet": ("QANet, CNNs", "csan/table1/cnns"),
    "rope": ("RoPE", ""),
    "alibi": ("ALiBi", ""),
    "t5bias": ("T5's relative bias", ""),
    "sinks": ("sliding window with sinks", ""),
    "hybrid_local": ("`local(window=2) + global`", ""),
    "hybrid_csan": ("`csan(window=11, head_span=1) + global`", ""),
    "hybrid_alibi": ("`local(window=8) & alibi`", ""),
}
# The attentions of benchmarks/modules.py that are no system's own.
ATTENTIONS = {
    "san": "no mechanism",
    "sman": "SMAN, b = 5",
    "dman": "DMAN",
    "diffwin_aw": "DiffWin, AW",
    "diffwin_mw": "DiffWin, MW",
}
PARTS = ("step", "generation")
PLAIN_FP32 = "transformer_fp32"  # in files of bf16
LENGTHS = ("30", "128", "512", "2048", "8192")
STEPS = "steps_per_second"


def speed_table(root: Path) -> str:
    """Return the ratios of fairseq's own time to each model's, on a CPU; empty cells were not measured."""
    step, generation = (_lines(root, part, "fp32") for part in PARTS)
    bf16 = [_lines(root, part, "bf16") for part in PARTS]
    rows = []
    for name, (label, row) in SYSTEMS.items():
        cells = [_ratio(step, name), _ratio(step, name, column="efficiency"), _ratio(generation, name)]
        for lines in bf16:
            cells += [_ratio(lines, name), _ratio(lines, name, over=PLAIN_FP32)]
        rows.append([label, _of_paper(root, row), *cells])
    return markdown(HEADER, rows)


def attentions_table(root: Path) -> str:
    """Return the ratios of the time of fairseq's attention to that of each of ours, by length."""
    lines = _lines(root, "module", "fp32", "tokens")
    measured = {key: line for key, line in lines.items() if not line["note"]}
    labels = {name: label for name, (label, _) in SYSTEMS.items()} | ATTENTIONS
    names = dict.fromkeys(name for name, _ in lines if name in labels)
    rows = [[labels[name], *(_ratio(measured, name, length) for length in LENGTHS)] for name in names]
    return markdown(("one attention, d=512, tokens:", *(f"{int(length):,}" for length in LENGTHS)), rows)


def _lines(root: Path, part: str, precision: str, *more: str) -> dict[tuple[str, ...], Line]:
    """Return the lines of a benchmark by system, and by more columns; none where it was not run."""
    path, key = root / "results" / "benchmarks" / f"{part}_cpu_{precision}.csv", ("system", *more)
    found = read_lines(path, (*key, "ratio_median"), key) if path.is_file() else []
    return {tuple(line[name] for name in key): line for line in found}


def _ratio(lines: dict[tuple[str, ...], Line], *key: str, column: str = "ratio_median", over: str = "") -> str:
    """Return a ratio, divided by that of the system ``over`` if given, such as fairseq's in fp32; '' for no line."""
    if key not in lines:
        return ""
    return f"{lines[key].number(column) / (lines[over,].number(column) if over else 1):.2f}"


def _of_paper(root: Path, row: str) -> str:
    """Return a paper's steps a second over those of its Transformer; nothing for no row."""
    if not row:
        return ""
    paper, name, row = row.split("/")
    table = find_table(paper, name, root / "configs")
    return f"{Row(table, row).paper[STEPS] / Row(table, 'transformer').paper[STEPS]:.2f}"
