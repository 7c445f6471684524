"""Trained models in Python: fairseq's ``from_pretrained`` with trees for MG-SA, and with labels for classifiers.

``MMATransformerModel.from_pretrained(folder, "model.pt", tokenizer="moses", bpe="subword_nmt")`` has ``translate``;
hubconf.py offers the same to ``torch.hub.load``. docs/use-with-fairseq.md says which files the folder has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from fairseq import hub_utils
from fairseq.data.data_utils import collate_tokens
from fairseq.hub_utils import GeneratorHubInterface

from .errors import SentenceError, UsageError
from .registration import register


class TextHubInterface(GeneratorHubInterface):
    """fairseq's interface, with errors of one line for sentences that are no text or too long."""

    def encode(self, sentence: str) -> torch.LongTensor:
        """Return the tokens of a sentence. Raises UsageError for bytes, and for text read with the wrong encoding."""
        if not isinstance(sentence, str):
            raise UsageError(f"{sentence!r}: a sentence is a string; decode bytes by sentence.decode('utf-8')")
        try:
            sentence.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{sentence[:60]!r}: no valid text at character {error.start + 1}: it was read from a file that is not "
                "UTF-8; open the file with its own encoding"
            ) from None
        return super().encode(sentence)


class FromPretrained:
    """Mixin for fairseq's models: ``from_pretrained`` returns the interface that the checkpoint's task or model names.

    ``hub_interface`` is that interface; an attribute of this name of the task comes first.
    """

    hub_interface: ClassVar[type[GeneratorHubInterface]] = TextHubInterface

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | os.PathLike[str],
        checkpoint_file: str = "model.pt",
        data_name_or_path: str | os.PathLike[str] = ".",
        **overrides: Any,
    ) -> GeneratorHubInterface:
        """Return the models of a folder, ready to translate, to score or to classify.

        Args:
            model_name_or_path: folder with the checkpoint. An archive has to be unpacked before.
            checkpoint_file: the checkpoint's name in it; several, joined by the separator of paths, are an ensemble.
            data_name_or_path: folder with the dictionaries; if it starts with ``.``, relative to the first folder.
            overrides: options that replace those of the training, such as ``tokenizer``, ``bpe``, ``bpe_codes``.

        Raises UsageError for a folder, checkpoint or dictionary that is missing or damaged, or does not fit.
        """
        folder, data = os.fspath(model_name_or_path), os.fspath(data_name_or_path)
        # fairseq takes anything else for an archive: it unpacks what leads outside as well, and removes the archive.
        if not os.path.isdir(folder):
            raise UsageError(f"{folder}: no such folder; give the one that has {checkpoint_file} and its dictionaries")
        if not (data.startswith(".") or os.path.isdir(data)):
            raise UsageError(f"{data}: no such folder; give the one that has the dictionaries of {folder}")
        found = hub_utils.from_pretrained(folder, checkpoint_file, data, **overrides)
        task, models = found["task"], found["models"]
        interface = getattr(task, "hub_interface", getattr(models[0], "hub_interface", TextHubInterface))
        return interface(found["args"], task, models)


class PhraseHubInterface(TextHubInterface):
    """fairseq's interface to translation models, for the task ``translation_with_phrases``."""

    def sample(
        self,
        sentences: str | Sequence[str],
        beam: int = 1,
        verbose: bool = False,
        *,
        trees: str | Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the translation of each sentence; ``translate`` calls it with a beam of 5.

        Args:
            sentences: sentences, or one sentence, whose translation is then returned as a string.
            trees: the tree of each sentence in brackets, over its words after the tokeniser; "" where there is none,
                for phrases of one word. Models of n-grams need no trees.
            Others: see fairseq's interface; ``kwargs`` are options of the generation, such as ``lenpen``.

        Raises UsageError where trees are missing, cannot be read or have other words.
        """
        if isinstance(sentences, str):
            trees = [trees] if isinstance(trees, str) else trees
            return self.sample([sentences], beam, verbose, trees=trees, **kwargs)[0]
        if trees is None:
            if any(getattr(model.encoder, "needs_phrases", False) for model in self.models):
                raise UsageError(
                    "this model needs the tree of each sentence: translate(sentences, trees=[…]) with a tree in "
                    "brackets for each, or '' where there is none"
                )
            trees = [""] * len(sentences)
        if isinstance(trees, str) or len(trees) != len(sentences):
            given = 1 if isinstance(trees, str) else len(trees)
            raise UsageError(f"translate: {len(sentences)} sentences and {given} trees; give one for each sentence")
        tokens = [self.encode(sentence) for sentence in sentences]
        self.task.keep_phrases(sentences, trees, lambda text: self.apply_bpe(self.tokenize(text)))
        hypotheses = self.generate(tokens, beam, verbose, **kwargs)
        return [self.decode(best[0]["tokens"]) for best in hypotheses]


class ClassifierHubInterface(TextHubInterface):
    """Interface to classifiers of sentences, for fairseq's task ``sentence_prediction``."""

    def classify(self, sentences: Sequence[str]) -> list[tuple[str, float]]:
        """Return the most probable label of each sentence and its probability, the mean over an ensemble.

        Raises UsageError for a sentence that is longer than the model's positions, and for a model without labels.
        """
        if isinstance(sentences, str):
            raise UsageError("classify takes a list of sentences: classify([sentence])")
        labels, words, cfg = self.task.label_dictionary, self.src_dict, self.task.cfg
        if cfg.regression_target:
            raise UsageError("the model was trained with --regression-target: it gives a number, no label")
        if not sentences:
            return []
        first = [] if cfg.init_token is None else [cfg.init_token]  # as in the training data
        encoded = [torch.cat([words_of.new_tensor(first), words_of]) for words_of in map(self.encode, sentences)]
        for index, sentence in enumerate(encoded):
            if len(sentence) > self.max_positions:
                raise SentenceError(
                    f"{len(sentence)} tokens, and the model reads {self.max_positions}: shorten the sentence", index
                )
        tokens = collate_tokens(encoded, words.pad()).to(self.device)
        lengths = tokens.ne(words.pad()).sum(dim=1)
        with torch.inference_mode():
            scores = [
                model(tokens, lengths, classification_head_name=cfg.classification_head_name) for model in self.models
            ]
            probabilities = torch.stack([scores_of[0].float().softmax(-1) for scores_of in scores]).mean(dim=0)
        best = probabilities.max(dim=-1)
        names = [labels[int(number) + labels.nspecial] for number in best.indices]
        return list(zip(names, best.values.tolist(), strict=True))


register()
