"""Models of the probing tasks: a trained or new encoder, the vectors from its states, and the classifier.

Tasks of sentences use the mean over the tokens, </s> included, as models/classifier.py does. Tasks of words use the
last subword of each word, which has the inflection in English and German.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor, nn

from ...errors import UsageError
from ..describe import model_actions
from ..evaluation import load_trained
from .data import Batch, ProbingData, Sentences, batches
from .labels import WORD_TASKS

PAPER_LAYERS = 3  # layers of an encoder that is trained from scratch

#: Called with the number of items done since the last call, and a message.
OnProgress = Callable[[int, str], None]


def trained_encoder(checkpoint: Path, training_data: Path, data: ProbingData, cpu: bool) -> tuple[nn.Module, str]:
    """Return the encoder of a trained translation model, without gradients, and its architecture.

    ``training_data`` is the folder that the model was trained on, for its dictionaries. Raises UsageError where they
    are missing, or ``data`` were prepared with another dictionary.
    """
    trained = load_trained(checkpoint, training_data, cpu)
    words = trained.task.source_dictionary
    if words.symbols != data.dictionary.symbols:
        raise UsageError(
            f"{data.folder}: its dictionary is not that of {checkpoint}'s source: prepare it with --codes and --dict "
            "of the model's training data"
        )
    encoder = trained.model.encoder.requires_grad_(False)
    check_levels(encoder, data)
    return encoder, trained.architecture


def check_levels(encoder: Any, data: ProbingData) -> None:
    """Raise UsageError where the encoder needs phrases and the data have none, or too few levels."""
    if not needs_phrases(encoder):
        return
    needed, there = max(getattr(encoder, "granularities", (1,))), data.phrase_levels
    if needed > there:
        raise UsageError(
            f"{data.folder}: phrases of {there} levels, and the encoder reads level {needed}: prepare with --levels"
            if there
            else f"{data.folder}: no phrases there, which the encoder reads; data-prep/prepare_probing.sh writes them"
        )


def needs_phrases(encoder: nn.Module) -> bool:
    """Return whether an encoder reads the phrases of trees."""
    return bool(getattr(encoder, "needs_phrases", False))


def architecture_options(architecture: str, flags: Sequence[str]) -> Namespace:
    """Return the options of a translation model, with three encoder layers unless ``flags`` say otherwise.

    Raises UsageError for an unknown architecture or flag, for flags that are not the model's, and for flags that
    contradict each other.
    """
    if architecture not in ARCH_MODEL_REGISTRY:
        raise UsageError(f"--arch {architecture}: unknown; python -m fairseq_localattn lists this package's")
    if not issubclass(ARCH_MODEL_REGISTRY[architecture], TransformerModelBase):
        raise UsageError(f"--arch {architecture}: no Transformer for translation, whose encoder could be probed")
    task = "translation_with_phrases"  # also for models without phrases
    given = ["data", "--task", task, "--arch", architecture, "--encoder-layers", str(PAPER_LAYERS)]
    standard, _ = _parsed(given)
    found, others = _parsed([*given, *flags])
    for name in others:
        if getattr(found, name, None) != getattr(standard, name, None):
            raise UsageError(f"--{name.replace('_', '-')}: no flag of the model's, so it would change nothing here")
    return found


def _parsed(words: list[str]) -> tuple[Namespace, set[str]]:
    """Return fairseq-train's options, and the names of those flags that are not the model's."""
    parser = options.get_training_parser()
    found = options.parse_args_and_arch(parser, words)
    return found, {action.dest for action in parser._actions} - {action.dest for action in model_actions(parser)}


def new_encoder(args: Namespace, data: ProbingData) -> nn.Module:
    """Return an encoder with new weights. Raises UsageError where it cannot be built for these data.

    The encoder is part of a translation model, whose decoder is built and dropped.
    """
    task = Namespace(
        source_dictionary=data.dictionary,
        target_dictionary=data.dictionary,
        phrase_levels=sys.maxsize,  # check_levels below has this command's error message
        tag_dictionary=Dictionary(),  # no tag supervision here, as in the paper
    )
    model: Any = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
    check_levels(model.encoder, data)
    return model.encoder


class Classifier(nn.Sequential):
    """A multi-layer perceptron with one hidden layer."""

    def __init__(self, channels: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__(nn.Linear(channels, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes))


def encode(encoder: nn.Module, batch: Batch) -> Tensor:
    """Return the encoder's output, B×T×C."""
    more = {} if batch.phrases is None else {"src_phrases": batch.phrases}
    states: Tensor = encoder(batch.tokens, src_lengths=batch.lengths, **more)["encoder_out"][0]
    return states.transpose(0, 1)


def sentence_vectors(states: Tensor, batch: Batch, padding: int) -> Tensor:
    """Return the mean over the tokens of each sentence, </s> included, B×C from states B×T×C."""
    real = batch.tokens.ne(padding)[..., None]
    return (states * real).sum(dim=1) / real.sum(dim=1)


def word_vectors(states: Tensor, batch: Batch) -> Tensor:
    """Return the state of each word's last subword, sentence by sentence, W×C from states B×T×C."""
    return states.flatten(0, 1)[batch.word_ends]


class Probed(nn.Module):
    """An encoder and its classifier, trained together; ``padding`` is the index of the padding symbol."""

    def __init__(self, encoder: nn.Module, classifier: nn.Module, task: str, padding: int) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.of_words, self.padding = task in WORD_TASKS, padding

    def forward(self, batch: Batch) -> Tensor:
        """Return the scores of the classes, N×K, with a row for each sentence or for each word."""
        states = encode(self.encoder, batch)
        vectors = word_vectors(states, batch) if self.of_words else sentence_vectors(states, batch, self.padding)
        return self.classifier(vectors)


@dataclass(frozen=True)
class Vectors:
    """Vectors of a split from a frozen encoder, on the CPU: of the sentences, N×C, and of all words in order, W×C.

    The words of sentence n are ``words[starts[n] : starts[n + 1]]``; without rows if they were not asked for.
    """

    sentences: Tensor
    words: Tensor
    starts: Tensor

    def words_of(self, rows: Sequence[int]) -> Tensor:
        """Return the places in ``words`` of the words of these sentences, one sentence after another."""
        return torch.cat([torch.arange(int(self.starts[row]), int(self.starts[row + 1])) for row in rows])


@torch.inference_mode()
def vectors_of(
    encoder: nn.Module,
    sentences: Sentences,
    dictionary: Dictionary,
    max_tokens: int,
    *,
    words: bool,
    device: torch.device,
    on_progress: OnProgress,
) -> Vectors:
    """Return the vectors of a split, of the words only if ``words``, in batches of at most ``max_tokens``.

    ``on_progress`` counts no items.
    """
    encoder.eval()
    counts = torch.tensor([0, *(len(ends) if words else 0 for ends in sentences.word_ends)])
    found: Vectors | None = None
    done = 0
    for batch in batches(sentences, range(len(sentences)), dictionary, max_tokens):
        moved = batch.to(device)
        states = encode(encoder, moved)
        means = sentence_vectors(states, moved, dictionary.pad()).cpu()
        if found is None:
            starts = counts.cumsum(0)
            channels = means.size(1)
            of_words = means.new_empty(int(starts[-1]), channels)
            found = Vectors(means.new_empty(len(sentences), channels), of_words, starts)
        found.sentences[batch.rows] = means
        if words:
            found.words[found.words_of(batch.rows)] = word_vectors(states, moved).cpu()
        done += len(batch.rows)
        on_progress(0, f"states of {sentences.split}: {done:,} of {len(sentences):,} sentences")
    assert found is not None
    return found
