"""The benchmarks at tiny sizes: timing, counting, batches, systems and the files of the command."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from benchmarks import batches, command, generation, modules, report, start, steps
from benchmarks.gpu_day.page import read_csv
from benchmarks.settings import Settings
from benchmarks.systems import PLAIN, SYSTEMS, build, make_task, systems_of
from benchmarks.timing import interleave, ratio_of
from fairseq_localattn.errors import UsageError

CPU = torch.device("cpu")
TINY = Settings(CPU, size="tiny", tokens=200, pairs=400, words=50, rounds=3, warm_up=1)
# Of plain heads, of all others that batches join, of trees, of texts; tests/contract trains every model.
KINDS = ("mma", "csan_2d", "mgsa_syntactic", "hybrid_alibi")
TINY_FLAGS = "--device cpu --size tiny --tokens 200 --pairs 400 --words 50 --rounds 3 --warm-up 1".split()


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> Iterator[None]:
    """Leave what fairseq has loaded out of the garbage collections before each round."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def task() -> Any:
    return make_task(50)


def samples(task: Any, tokens: int = 200, rounds: int = 3) -> list[batches.Sample]:
    return batches.Batches(task.source_dictionary, task.tag_dictionary).training(tokens, 400, 1, rounds)


def test_ratios_are_taken_round_by_round() -> None:
    ratio = ratio_of([1.0, 2.0, 9.0], [2.0, 2.0, 3.0])
    assert (ratio.median, ratio.lowest, ratio.highest) == (1.0, 0.5, 3.0)
    for wrong in ([], [1.0]):
        with pytest.raises(ValueError, match="rounds of the baseline"):
            ratio_of(wrong, [1.0, 2.0] if wrong else [])


class Fake:
    """A runner that takes ``cost`` times its item; preparing and finishing take long, and must not count."""

    def __init__(self, name: str, cost: float, clock: SimpleNamespace, log: list[tuple[str, float]]) -> None:
        self.name, self.cost, self.clock, self.log, self.calls = name, cost, clock, log, 0

    def prepare(self, item: float) -> None:
        self.item = item
        self.clock.now += 1000
        self.log.append((self.name, item))

    def run(self) -> None:
        self.calls += 1
        self.clock.now += self.cost * self.item

    def finish(self) -> None:
        self.clock.now += 1000


def test_systems_take_turns_on_the_same_work_in_rotating_order() -> None:
    clock = SimpleNamespace(now=0.0)
    log: list[tuple[str, float]] = []
    seen: list[int] = []
    runners = {name: Fake(name, cost, clock, log) for name, cost in (("a", 1.0), ("b", 2.0), ("c", 4.0))}
    seconds = interleave(
        runners, [1.0, 2.0, 3.0, 5.0], 1, clock=lambda: clock.now, on_progress=lambda _, number: seen.append(number)
    )
    assert seconds == {"a": [2.0, 3.0, 5.0], "b": [4.0, 6.0, 10.0], "c": [8.0, 12.0, 20.0]}
    assert log == [
        (name, item) for item, order in zip((1, 2, 3, 5), ("abc", "bca", "cab", "abc"), strict=True) for name in order
    ]
    assert seen == [-1] * 3 + [0] * 3 + [1] * 3 + [2] * 3


def test_short_runs_are_repeated() -> None:
    clock = SimpleNamespace(now=0.0)
    runners = {name: Fake(name, cost, clock, []) for name, cost in (("a", 1.0), ("b", 3.0))}
    seconds = interleave(runners, [1.0, 1.0, 1.0], 1, clock=lambda: clock.now, least=4.5)
    assert seconds == {"a": [1.0, 1.0], "b": [3.0, 3.0]}, "the mean of the runs"
    assert [runner.calls for runner in runners.values()] == [1 + 5 + 5] * 2, "as often for all"


@pytest.mark.parametrize("name", [modules.FAIRSEQ, "san"])
def test_flops_of_an_attention(name: str) -> None:
    """Four projections and two products of T×T by head; backward is twice as much."""
    length, channels = 24, 64
    by_hand = 3 * (4 * 2 * length * channels**2 + 2 * 2 * length**2 * channels)
    assert modules._flops(name, length, 5, TINY) == 5 * by_hand


@pytest.mark.parametrize("name", KINDS)
def test_some_sentences_stand_for_the_flops_of_a_batch(name: str, task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = next(each for each in samples(task, 400, 9) if each["nsentences"] >= 8)
    system, found = SYSTEMS[name], []
    built = build(system, TINY, task)
    for sentences in (4, sample["nsentences"]):
        monkeypatch.setattr(steps, "FLOP_SENTENCES", sentences)
        found.append(steps.flops_of(built, system, [sample]))
    assert found[0] == found[1] > 0


def test_batches_are_fairseqs(task: Any) -> None:
    words = task.source_dictionary
    for sample in samples(task):
        source, target = sample["net_input"]["src_tokens"], sample["target"]
        assert source.numel() <= 200 and target.numel() <= 200
        assert (source[:, -1] == words.eos()).all(), "padded on the left"
        assert (target[:, 0] != words.pad()).all(), "padded on the right"
        assert sample["ntokens"] == int(target.ne(words.pad()).sum())
        real = source.ne(words.pad()).sum(dim=1)
        phrases = sample["net_input"]["src_phrases"]
        assert phrases.shape[:2] == (len(source), 3) and (phrases.sum(dim=2) == real[:, None]).all()
        ends = [[set(level.cumsum(0).tolist()) for level in row] for row in phrases]
        assert all(coarse <= middle <= fine for coarse, middle, fine in ends), "each level within the one before"
        plain = batches.for_model(sample, False, CPU)
        assert "src_phrases" not in plain["net_input"] and "phrase_tags" not in plain


def test_a_larger_corpus_has_less_padding(task: Any) -> None:
    """fairseq sorts by both lengths, and among more pairs more have equal lengths."""

    def padding(pairs: int) -> float:
        made = batches.Batches(task.source_dictionary, task.tag_dictionary).training(1000, pairs, 1, 7)[1:]
        return 1 - sum(each["ntokens"] for each in made) / sum(each["target"].numel() for each in made)

    assert 0 < padding(40_000) < 0.06 < 0.12 < padding(1000)
    with pytest.raises(UsageError, match="--pairs 100: . batches for 7 rounds: give more pairs"):
        padding(100)


def test_rounds_are_spread_over_the_lengths() -> None:
    chosen = batches.choose_batches(70, 2, 7)
    assert chosen[0] == 69 and sorted(chosen[2:]) == [5, 15, 25, 35, 45, 55, 65]
    with pytest.raises(ValueError, match="6 batches for 7 rounds"):
        batches.choose_batches(6, 2, 7)


@pytest.mark.parametrize("name", KINDS)
def test_a_step_of_a_system(name: str, task: Any) -> None:
    step = steps.TrainingStep(SYSTEMS[name], TINY, task)
    before = [parameter.detach().clone() for parameter in step.built.model.parameters()]
    step.prepare(samples(task)[0])
    step.run()
    after = list(step.built.model.parameters())
    assert all(parameter.isfinite().all() for parameter in after)
    moved = [not torch.equal(old, new) for old, new in zip(before, after, strict=True)]
    assert sum(moved) > 0.9 * len(moved), "trained"
    step.finish()
    assert all(parameter.grad is None for parameter in after)


def test_flags_are_for_ours_alone(task: Any) -> None:
    changed = Settings(CPU, size="tiny", words=50, flags=("--encoder-layers", "1"))
    assert len(build(SYSTEMS["mma"], changed, task).model.encoder.layers) == 1
    assert len(build(SYSTEMS[PLAIN], changed, task).model.encoder.layers) == 2


def test_beam_search_must_write_what_the_others_write(task: Any) -> None:
    search = generation.BeamSearch(SYSTEMS["mma"], TINY, task)
    sample = samples(task)[0]
    search.prepare(sample)
    search.run()
    assert search.written == 30 * sample["nsentences"]
    search.written -= 1
    with pytest.raises(RuntimeError, match="mma wrote"):
        search.finish()


@pytest.mark.parametrize(("name", "dtype"), [("mma", torch.bfloat16), ("transformer_fp32", torch.float32)])
def test_bf16_on_a_cpu_is_autocast(task: Any, name: str, dtype: torch.dtype) -> None:
    """The baseline in fp32 runs beside it."""
    settings = Settings(CPU, precision="bf16", size="tiny", words=50, systems=("mma",))
    assert systems_of(settings, "step") == [SYSTEMS[each] for each in (PLAIN, "transformer_fp32", "mma")]
    step = steps.TrainingStep(SYSTEMS[name], settings, task)
    seen = []
    step.built.model.encoder.layers[0].fc1.register_forward_hook(lambda _, __, out: seen.append(out.dtype))
    step.prepare(samples(task)[0])
    step.run()
    assert seen == [dtype]
    assert {parameter.dtype for parameter in step.built.model.parameters()} == {torch.float32}


PART_SYSTEMS = {
    "module": (["fairseq", "mgsa_ngram"], "mgsa_ngram"),
    "step": (["transformer", "mgsa_syntactic"], "mgsa_syntactic"),
    "long": (["transformer", "csan_1d_everywhere"], "csan_1d_everywhere"),
    "generation": (["transformer", "man"], "man"),
    "inference": ([*["fairseq", *["transformer"] * 3] * 2, *["man"] * 6], "man"),
    "scaling": (["fairseq", "dman"], "dman"),
    "optimizer": (["transformer", "transformer_localattn_adam"], "transformer_localattn_adam"),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", PART_SYSTEMS)
def test_each_part_end_to_end(part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    systems, asked = PART_SYSTEMS[part]
    flags = ["--parts", part, "--systems", asked, "--lengths", "16,64", "--out", str(tmp_path)]
    assert command.main([*TINY_FLAGS, *flags]) == 0
    rows = read_csv(tmp_path / f"{part}_cpu_fp32.csv")
    lengths = ["16", "64"] if part in ("module", "scaling", "long") else [""]
    assert [(row.get("tokens", "") if len(lengths) > 1 else "", row["system"]) for row in rows] == [
        (length, system) for length in lengths for system in systems
    ]
    words = {"system", "architecture", "weights", "note", *report._MACHINE}
    for row in rows:
        numbers = {name: float(value) for name, value in row.items() if name not in words}
        assert all(math.isfinite(value) and value > 0 for value in numbers.values()), numbers
        assert row["rounds"] == "3" and all(row[name] for name in report._MACHINE)
        assert numbers["ratio_lowest"] <= numbers["ratio_median"] <= numbers["ratio_highest"]
        if row["system"] == systems[0]:
            assert numbers["ratio_lowest"] == numbers["ratio_highest"] == 1
    if part == "step":
        for row in rows:
            # The ratio without the update is near that with it; wide bounds, since other processes may interfere.
            assert 0.2 < float(row["efficiency"]) * float(row["flops_ratio"]) / float(row["ratio_median"]) < 5
            assert 0 < float(row["update_ms"]) < float(row["time_ms"])
    if part == "scaling":
        assert (tmp_path / "scaling_cpu.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr()
    assert all(name in printed.out for name in (*systems, "torch", "commit", "allocator", "ratio_median"))
    assert f"{part}: " in printed.err


def test_starts_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The baseline here is quick; the differences are taken round by round."""
    monkeypatch.setitem(start.STARTS, "fairseq_train", (("-c", "print('first'); print('a done b')"), "done"))
    flags = ["--parts", "start", "--systems", "path", "--out", str(tmp_path)]
    assert command.main([*TINY_FLAGS, *flags]) == 0
    rows = read_csv(tmp_path / "start_cpu_fp32.csv")
    assert [row["system"] for row in rows] == ["fairseq_train", "path"]
    assert float(rows[0]["beyond_ms"]) == 0 and all(float(row["time_ms"]) > 5 for row in rows)
    assert start.beyond([1.0, 2.0, 9.0], [1.5, 2.25, 11.0]) == 500
    process = start.Process("fairseq_train")
    process.arguments = ("-c", "print('done'); raise SystemExit('but failed')")
    process.prepare(0)
    process.run()
    with pytest.raises(RuntimeError, match="fairseq_train: the last line is 'but failed', without done"):
        process.finish()


def test_what_would_be_too_large_is_left_out(tmp_path: Path) -> None:
    flags = ["--parts", "module", "--systems", "dman,san", "--lengths", "16", "--largest-scores", "0"]
    assert command.main([*TINY_FLAGS, *flags, "--out", str(tmp_path)]) == 0
    rows = {row["system"]: row for row in read_csv(tmp_path / "module_cpu_fp32.csv")}
    assert rows["dman"]["note"] == "not measured: too large" and not rows["dman"]["time_ms"]
    assert not rows["san"]["note"] and float(rows["san"]["time_ms"]) > 0
    assert not rows["san"]["gflops"], "products of all queries and keys would be too large as well"


def test_no_part_is_measured_in_another_precision_than_asked(tmp_path: Path, capsys: Any) -> None:
    """A training on a CPU would be in fp32."""
    flags = ["--parts", "training,inference", "--precision", "bf16", "--out", str(tmp_path)]
    assert command.main([*TINY_FLAGS, *flags]) == 0 and not list(tmp_path.glob("*.csv"))
    assert capsys.readouterr().err.count("left out: ") == 2


def test_finished_parts_stay_when_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(command.RUN, "step", Mock(side_effect=KeyboardInterrupt))
    flags = ["--parts", "step,module", "--systems", "san,mma", "--lengths", "16", "--out", str(tmp_path)]
    old = tmp_path / "module_cpu_fp32.csv"
    old.write_text("another run\n")
    assert command.main([*TINY_FLAGS, *flags]) == 130
    assert [path.name for path in tmp_path.iterdir()] == [old.name]
    assert [row["system"] for row in read_csv(old)] == ["fairseq", "san", "mma"], "in place of what was there"
    assert "stopped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--systems", "mma,nope"], "nope: choose from"),
        (["--parts", "module,nope"], "choose from module, step, long, generation, inference, scaling, start"),
        (["--rounds", "2"], "--rounds 2: at least 3"),
        (["--flags=--mma-window 0", "--systems", "mma"], "the window of the local heads must be 1 or more"),
        (["--out", "/proc/version/x"], "/proc/version"),
    ],
)
def test_mistakes_are_told_in_one_line(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(flags if "--out" not in flags else [*flags, "--parts", "module"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("run: error: ") and printed.err.count("\n") == 1 and said in printed.err
    assert not printed.out
