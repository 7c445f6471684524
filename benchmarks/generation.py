"""Part ``generation``: beam search as in fairseq-generate, with the same number of output tokens for each model."""

from __future__ import annotations

import contextlib
import io
import statistics

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.translation import TranslationTask

from .batches import Batches, Sample, for_model
from .report import Row, speed_columns
from .settings import Settings
from .systems import PLAIN, System, build, make_task, systems_of
from .timing import PartProgress, interleave

BEAM, SENTENCES = 5, 32
WRITTEN = 30  # tokens of each hypothesis, </s> included; fixed, since untrained models end at random


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
    seconds = interleave(
        searches,
        samples,
        settings.warm_up,
        synchronize=settings.synchronize,
        on_progress=progress.rounds(settings.rounds),
    )
    return [
        {
            "system": name,
            "architecture": search.system.architecture_of(settings),
            "sentences": SENTENCES,
            "beam": BEAM,
            "tokens": search.written,
            **speed_columns(seconds[PLAIN], seconds[name]),
            "tokens_per_s": statistics.median(search.written / each for each in seconds[name]),
        }
        for name, search in searches.items()
    ]
