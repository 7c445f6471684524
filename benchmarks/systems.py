"""The models that are compared, built through fairseq's argument parser and registry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq import criterions, options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

import fairseq_localattn  # noqa: F401  registers the architectures
from fairseq_localattn.criterions.phrase_tags import NAME as TAGGING
from fairseq_localattn.errors import UsageError
from fairseq_localattn.optim.adam import NAME as FUSED

from .batches import LEVELS
from .settings import SEED, Settings

PLAIN = "transformer"  # the baseline: fairseq's own, of the same size
PLAIN_FP32 = "transformer_fp32"  # the same in fp32, beside runs in bf16
PLAIN_FUSED = "transformer_localattn_adam"  # the same with this package's optimizer, where the systems have it
_TAGS = 28  # types of constituents, about as many as in the Penn Treebank


@dataclass(frozen=True)
class System:
    """A model that is compared.

    Args:
        name: in tables and on the command line.
        architecture: without the suffix of its size.
        flags: of fairseq-train.
        trees: the model takes phrases of trees, with tags.
        fp32: computed in fp32, whatever the precision of the run is.
        optimizer: of fairseq-train, whatever that of the run is.
    """

    name: str
    architecture: str
    flags: tuple[str, ...] = ()
    trees: bool = False
    fp32: bool = False
    optimizer: str | None = None

    def settings_of(self, settings: Settings) -> Settings:
        """Return the settings of a run with the precision of this system."""
        return replace(settings, precision="fp32") if self.fp32 else settings

    def architecture_of(self, settings: Settings) -> str:
        """Return the name of the architecture in the size of the run."""
        if self.architecture == PLAIN:
            return settings.sizes.plain
        return self.architecture + settings.sizes.suffix


# Compositions without parameters of their own, in equal shares of any number of heads; of every attention but cross.
TEXTS = {
    "hybrid_local": "local(window=2) + global",
    "hybrid_csan": "csan(window=11, head_span=1) + global",
    "hybrid_alibi": "local(window=8) & alibi",
}
# A window in every self-attention of both stacks, for the part `long`.
EVERYWHERE = {"csan_1d_everywhere": "csan(window=11, head_span=1)", "sman_everywhere": "sman(boundary=5)"}
SYSTEMS = {
    system.name: system
    for system in (
        System(PLAIN, PLAIN, optimizer="adam"),
        System(PLAIN_FP32, PLAIN, fp32=True, optimizer="adam"),
        System(PLAIN_FUSED, PLAIN, optimizer=FUSED),
        System("mma", "transformer_mma"),
        System("csan_1d", "transformer_csan_1d"),
        System("csan_2d", "transformer_csan"),
        System("diffwin", "transformer_diffwin"),
        System("mgsa_ngram", "transformer_mgsa_ngram"),
        System("mgsa_syntactic", "transformer_mgsa", ("--mgsa-tags",), trees=True),
        System("man_encoder", "transformer_man", ("--man-decoder-layers", "none")),
        System("man", "transformer_man"),
        *(
            System(name, "transformer_hybrid", ("--localattn-encoder", text, "--localattn-decoder", text))
            for name, text in {**TEXTS, **EVERYWHERE}.items()
        ),
        *(
            System(name, f"transformer_{name}")
            for name in "relpos rope alibi t5bias sinks localness local_hard neighbor blocksan qanet".split()
        ),
    )
}


# The systems that each part takes by default, without the baseline; all others can be asked for.
_USUAL = tuple(name for name, system in SYSTEMS.items() if system.architecture != PLAIN and name not in EVERYWHERE)
DEFAULT_SYSTEMS = {
    "step": _USUAL,
    "generation": _USUAL,
    "inference": tuple("mma csan_1d rope alibi t5bias mgsa_ngram mgsa_syntactic man diffwin".split()),
    "training": ("mma", "csan_2d", "man", "diffwin", "mgsa_ngram"),
    "long": ("mma", "hybrid_alibi", *EVERYWHERE),
}


def systems_of(settings: Settings, part: str) -> list[System]:
    """Return the baselines and the selected systems of a part.

    A run in bf16 also has the baseline in fp32, and one with localattn_adam also the baseline with that optimizer.
    """
    asked = DEFAULT_SYSTEMS[part] if settings.systems is None else settings.chosen(tuple(SYSTEMS)[1:])
    plain = [PLAIN]
    if settings.precision != "fp32":
        plain.append(PLAIN_FP32)
    if settings.optimizer == FUSED and part not in ("generation", "inference"):
        plain.append(PLAIN_FUSED)
    return [SYSTEMS[name] for name in dict.fromkeys((*plain, *asked))]


def make_task(words: int) -> TranslationTask:
    """Return fairseq's translation task with a joined dictionary of ``words`` symbols.

    It also has the attributes of the task with phrases, which models with trees read.
    """
    dictionary, tags = Dictionary(), Dictionary()
    for number in range(words - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    for number in range(_TAGS):
        tags.add_symbol(f"T{number}")
    task = TranslationTask(TranslationConfig(), dictionary, dictionary)
    task.tag_dictionary, task.phrase_levels = tags, LEVELS
    return task


@dataclass(frozen=True)
class Built:
    """A model and its criterion on the device; ``cfg`` is fairseq's configuration of the training."""

    model: Any
    criterion: nn.Module
    cfg: Any

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def build(system: System, settings: Settings, task: TranslationTask) -> Built:
    """Build a model as fairseq-train does. Raises UsageError for flags that fairseq or the model refuses."""
    args = parse(system, settings)
    cfg = convert_namespace_to_omegaconf(args)
    torch.manual_seed(SEED)
    try:
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
        criterion = criterions.build_criterion(cfg.criterion, task)
    except UsageError as error:
        raise UsageError(f"system {system.name}: {error}") from None
    return Built(settings.place(model), settings.place(criterion), cfg)


def parse(system: System, settings: Settings) -> Any:
    """Parse the arguments of fairseq-train for a system. Raises UsageError."""
    words = ["data", "--arch", system.architecture_of(settings), "--share-all-embeddings"]
    words += ["--task", "translation_with_phrases" if system.trees else "translation"]
    words += ["--criterion", TAGGING if system.trees else "label_smoothed_cross_entropy", "--label-smoothing", "0.1"]
    words += ["--optimizer", system.optimizer or settings.optimizer, "--adam-betas", "(0.9, 0.98)", "--lr", "1e-4"]
    words += ["--dropout", str(settings.dropout)]
    words += ["--bf16"] if settings.half_parameters else []
    words += [*system.flags, *(settings.flags if system.architecture != PLAIN else ())]
    try:
        return options.parse_args_and_arch(options.get_training_parser(), words)
    except UsageError as error:
        raise UsageError(f"--flags {' '.join(settings.flags)}: system {system.name}: {error}") from None
