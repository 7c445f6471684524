"""The tables of speeds against fairseq's own, from results/benchmarks/ and the papers' rows: models, and attentions."""

from __future__ import annotations

from pathlib import Path

from experiments.measure.csv_files import Line, read_lines
from experiments.recipes.tables import find_table
from experiments.report.papers import rows_of
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
PRECISIONS = ("fp32", "bf16")
PLAIN_FP32 = "transformer_fp32"  # in files of bf16
LENGTHS = ("30", "128", "512", "2048", "8192")
STEPS = "steps_per_second"


def speed_table(root: Path) -> str:
    """Return the ratios of fairseq's own time to each model's, on a CPU; empty cells were not measured."""
    fp32, bf16 = ({part: _lines(root, part, precision) for part in ("step", "generation")} for precision in PRECISIONS)
    rows = []
    for name, (label, row) in SYSTEMS.items():
        cells = [
            _number(fp32["step"], name, "ratio_median"),
            _number(fp32["step"], name, "efficiency"),
            _number(fp32["generation"], name, "ratio_median"),
        ]
        for lines in bf16.values():
            cells += [_number(lines, name, "ratio_median"), _against_fp32(lines, name)]
        rows.append([label, _of_paper(root, row), *cells])
    return markdown(HEADER, rows)


def attentions_table(root: Path) -> str:
    """Return the ratios of the time of fairseq's attention to that of each of ours, by length."""
    found = _all_lines(root, "module", "fp32", "tokens")
    ratios = {
        (line["system"], line["tokens"]): f"{line.number('ratio_median'):.2f}" for line in found if not line["note"]
    }
    labels = {name: label for name, (label, _) in SYSTEMS.items()} | ATTENTIONS
    names = dict.fromkeys(line["system"] for line in found if line["system"] in labels)
    rows = [[labels[name], *(ratios.get((name, length), "") for length in LENGTHS)] for name in names]
    return markdown(("one attention, d=512, tokens:", *(f"{int(length):,}" for length in LENGTHS)), rows)


def _lines(root: Path, part: str, precision: str) -> dict[str, Line]:
    return {line["system"]: line for line in _all_lines(root, part, precision)}


def _all_lines(root: Path, part: str, precision: str, *key: str) -> list[Line]:
    path = root / "results" / "benchmarks" / f"{part}_cpu_{precision}.csv"
    return read_lines(path, ("system", "ratio_median", *key), ("system", *key)) if path.is_file() else []


def _number(lines: dict[str, Line], name: str, column: str) -> str:
    return f"{lines[name].number(column):.2f}" if name in lines else ""


def _against_fp32(lines: dict[str, Line], name: str) -> str:
    """Return the ratio to fairseq's own in fp32, which a run in bf16 times as well."""
    if name not in lines:
        return ""
    return f"{lines[name].number('ratio_median') / lines[PLAIN_FP32].number('ratio_median'):.2f}"


def _of_paper(root: Path, row: str) -> str:
    """Return a paper's steps a second over those of its Transformer; nothing for no row."""
    if not row:
        return ""
    paper, table, name = row.split("/")
    found = {each.name: each.paper for each in rows_of(find_table(paper, table, root / "configs"))}
    return f"{found[name][STEPS] / found['transformer'][STEPS]:.2f}"
