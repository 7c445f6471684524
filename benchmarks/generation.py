"""Parts ``generation``, beam search as in fairseq-generate, and ``inference``, the search without fairseq.

Each model writes the same number of output tokens.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.translation import TranslationTask

from fairseq_localattn.inference import Options, search
from fairseq_localattn.inference.dictionary import Dictionary
from fairseq_localattn.inference.linear import to_int8, to_onednn
from fairseq_localattn.inference.load import build as build_alone
from fairseq_localattn.inference.model import Model
from fairseq_localattn.inference.sizes import sizes_of

from .batches import Batches, Sample, for_model
from .peers.ctranslate2 import CTranslate2Search, searches_of
from .report import Row, speed_columns
from .settings import Settings
from .systems import PLAIN, SYSTEMS, System, build, make_task, parse, systems_of
from .timing import PartProgress, interleave, time_rounds

BEAM, SENTENCES = 5, 32
WRITTEN = 30  # tokens of each hypothesis, </s> included; fixed, since untrained models end at random
ALONE = (16, 64)  # sentences of a batch, of the part inference
WEIGHTS = ("fp32", "bf16", "int8")
FAIRSEQ = "fairseq"  # the baseline: its generator with its Transformer, in fp32


class BeamSearch:
    """fairseq's SequenceGenerator with one model, prepared as in fairseq-generate."""

    def __init__(self, system: System, settings: Settings, task: TranslationTask) -> None:
        self.system, self.settings, self.task = system, system.settings_of(settings), task
        length = str(WRITTEN - 1)  # fairseq does not count </s>
        words = ["data", "--path", "-", "--beam", str(BEAM), "--min-len", length, "--max-len-b", length]
        with contextlib.redirect_stderr(io.StringIO()):
            cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_generation_parser(), words))
        self.model = build(system, self.settings, task).model.eval()
        if self.settings.precision == "bf16":  # on a CPU too, as --localattn-cpu-matmul bf16 does for decoding
            self.model.bfloat16()
        self.model.prepare_for_inference_(cfg)
        self.generator = task.build_generator([self.model], cfg.generation)
        self.sample: Sample = {}
        self.written = 0  # tokens of the best hypotheses of the last run, as fairseq-generate counts them

    def prepare(self, item: Sample) -> None:
        self.sample = for_model(item, self.system.trees, self.settings.device)

    def run(self) -> None:
        found = self.task.inference_step(self.generator, [self.model], self.sample)
        self.written = sum(len(hypotheses[0]["tokens"]) for hypotheses in found)

    def finish(self) -> None:
        """Raise RuntimeError if the model has not written the fixed number of tokens."""
        if self.written != WRITTEN * self.sample["nsentences"]:
            raise RuntimeError(
                f"{self.system.name} wrote {self.written} tokens for {self.sample['nsentences']} sentences"
            )
        self.sample = {}


def run_generation(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part, the baseline first."""
    task = make_task(settings.words)
    batches = Batches(task.source_dictionary, task.tag_dictionary)
    samples = batches.sentences(SENTENCES, settings.warm_up, settings.rounds)
    searches = {}
    for system in systems_of(settings, "generation"):
        progress.say(f"{system.name}: building")
        searches[system.name] = BeamSearch(system, settings, task)
    progress.expect(len(samples) * len(searches))
    seconds = time_rounds(searches, samples, settings, progress)
    return [
        _row(search.system, settings, seconds[PLAIN], seconds[name], sentences=SENTENCES)
        for name, search in searches.items()
    ]


def alone(system: System, settings: Settings, task: TranslationTask) -> Model:
    """Return a system's model without fairseq, built so that the matrix products of the process do not change."""
    if system.name != PLAIN:
        settings = replace(settings, flags=(*settings.flags, "--localattn-cpu-matmul", "fp32"))
    model = build(system, settings, task).model
    words = Dictionary(task.source_dictionary.symbols)
    sizes = sizes_of(parse(system, settings))
    return build_alone(sizes, model.state_dict(), {"source": words, "target": words}, where=system.name)


class Search:
    """The search of one model, with a fixed number of output tokens."""

    def __init__(self, model: Model, weights: str, trees: bool) -> None:
        self.model, self.trees = model.bfloat16() if weights == "bf16" else model, trees
        if weights != "bf16":
            (to_int8 if weights == "int8" else to_onednn)(self.model)
        self.options = Options(beam=BEAM, min_len=WRITTEN - 1, max_len_b=WRITTEN - 1)
        self.sample: Sample = {}
        self.written = 0

    def prepare(self, item: Sample) -> None:
        self.sample = for_model(item, self.trees, next(self.model.parameters()).device)["net_input"]

    def run(self) -> None:
        found = search(self.model, self.sample["src_tokens"], self.options, phrases=self.sample.get("src_phrases"))
        self.written = sum(len(best[0].tokens) for best in found)

    def finish(self) -> None:
        """Raise RuntimeError if the model has not written the fixed number of tokens."""
        if self.written != WRITTEN * len(self.sample["src_tokens"]):
            raise RuntimeError(f"{self.written} tokens for {len(self.sample['src_tokens'])} sentences")
        self.sample = {}


def run_inference(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part, fairseq's first. Times are CPU times, on which other processes have less effect.

    System by system, fairseq's generator beside each, so that few models are held at once.
    """
    task = make_task(settings.words)
    batches = Batches(task.source_dictionary, task.tag_dictionary)
    batches_of = {count: batches.sentences(count, settings.warm_up, settings.rounds) for count in ALONE}
    fairseqs, systems = BeamSearch(SYSTEMS[PLAIN], settings, task), systems_of(settings, "inference")
    progress.expect(sum(map(len, batches_of.values())) * len(systems) * (1 + len(WEIGHTS)))
    rows: list[Row] = []
    for system in systems:
        progress.say(f"{system.name}: building")
        runners: dict[str, BeamSearch | Search | CTranslate2Search] = {FAIRSEQ: fairseqs}
        runners |= {name: Search(alone(system, settings, task), name, system.trees) for name in WEIGHTS}
        if system.name == PLAIN:
            runners |= searches_of(fairseqs.model, settings, task, length=WRITTEN, beam=BEAM)
        for sentences, samples in batches_of.items():
            count = progress.rounds(settings.rounds, where=f"{system.name}, {sentences} sentences: ")
            seconds = interleave(runners, samples, settings.warm_up, clock=time.process_time, on_progress=count)
            baseline = seconds.pop(FAIRSEQ)
            if system is systems[0]:
                row = _row(system, settings, baseline, baseline, sentences=sentences)
                rows.append({**row, "system": FAIRSEQ, "weights": "fp32"})
            for name, taken in seconds.items():
                other, _, weights = name.rpartition(" ")  # of CTranslate2
                row = _row(system, settings, baseline, taken, sentences=sentences)
                rows.append({**row, "system": other or system.name, "weights": weights})
    return rows


def _row(
    system: System, settings: Settings, baseline: Sequence[float], taken: Sequence[float], *, sentences: int
) -> Row:
    tokens = WRITTEN * sentences
    return {
        "system": system.name,
        "architecture": system.architecture_of(settings),
        "sentences": sentences,
        "beam": BEAM,
        "tokens": tokens,
        **speed_columns(baseline, taken),
        "tokens_per_s": statistics.median(tokens / each for each in taken),
    }
