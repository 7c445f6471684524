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

from .errors import UsageError


class FromPretrained:
    """Mixin for fairseq's models: ``from_pretrained`` returns the interface that the checkpoint's task or model names.

    ``hub_interface`` is that interface; an attribute of this name of the task comes first.
    """

    hub_interface: ClassVar[type[GeneratorHubInterface]] = GeneratorHubInterface

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
            model_name_or_path: folder with the checkpoint, or an archive's path or URL.
            checkpoint_file: the checkpoint's name in it; several, joined by the separator of paths, are an ensemble.
            data_name_or_path: folder with the dictionaries; if it starts with ``.``, relative to the first folder.
            overrides: options that replace those of the training, such as ``tokenizer``, ``bpe``, ``bpe_codes``.

        Raises UsageError for a folder, checkpoint or dictionary that is missing.
        """
        folder, archives = os.fspath(model_name_or_path), cls.hub_models()  # type: ignore[attr-defined]
        if not (os.path.exists(folder) or folder in archives or "://" in folder):
            raise UsageError(f"{folder}: no such folder; give the one that has {checkpoint_file} and its dictionaries")
        data = os.fspath(data_name_or_path)
        found = hub_utils.from_pretrained(folder, checkpoint_file, data, archive_map=archives, **overrides)
        task, models = found["task"], found["models"]
        interface = getattr(task, "hub_interface", getattr(models[0], "hub_interface", GeneratorHubInterface))
        return interface(found["args"], task, models)


class PhraseHubInterface(GeneratorHubInterface):
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
        self.task.keep_phrases(sentences, trees, lambda text: self.apply_bpe(self.tokenize(text)))
        hypotheses = self.generate([self.encode(sentence) for sentence in sentences], beam, verbose, **kwargs)
        return [self.decode(best[0]["tokens"]) for best in hypotheses]


class ClassifierHubInterface(GeneratorHubInterface):
    """Interface to classifiers of sentences, for fairseq's task ``sentence_prediction``."""

    def classify(self, sentences: Sequence[str]) -> list[tuple[str, float]]:
        """Return the most probable label of each sentence and its probability, the mean over an ensemble."""
        labels, words = self.task.label_dictionary, self.src_dict
        tokens = collate_tokens([self.encode(sentence) for sentence in sentences], words.pad()).to(self.device)
        lengths = tokens.ne(words.pad()).sum(dim=1)
        with torch.inference_mode():
            scores = [
                model(tokens, lengths, classification_head_name=self.task.cfg.classification_head_name)
                for model in self.models
            ]
            probabilities = torch.stack([scores_of[0].float().softmax(-1) for scores_of in scores]).mean(dim=0)
        best = probabilities.max(dim=-1)
        names = [labels[int(number) + labels.nspecial] for number in best.indices]
        return list(zip(names, best.values.tolist(), strict=True))
