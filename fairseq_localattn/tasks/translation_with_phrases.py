"""Task ``translation_with_phrases``: translation of source sentences with the phrases of their trees."""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq import utils
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from ..criterions.phrase_tags import NAME as TAGGING
from ..criterions.phrase_tags import LabelSmoothedCrossEntropyWithPhraseTags
from ..errors import SentenceError, UsageError
from ..hub import PhraseHubInterface
from ..phrases.convert import phrases_of_sentence
from ..phrases.dataset import HINT, Levels, PhraseData, PhrasePairDataset, join_phrases, levels_of, read_settings
from ..phrases.trees import TreeError

NO_TREE = "()"  # in place of a tree: phrases of one word


class PhraseSettings(NamedTuple):
    """Settings of the phrases in a data folder: dictionary of tags, number of levels, convention of subwords."""

    tags: Dictionary
    levels: int
    subwords: str


def phrase_settings(folder: Path, lang: str) -> PhraseSettings:
    """Return the settings of a language's phrases. Raises UsageError where they are missing or damaged."""
    tags = folder / f"dict.{lang}.phrases.txt"
    if not tags.is_file():
        raise UsageError(f"{tags}: missing: {folder} has no phrases of its {lang} side; {HINT}")
    levels, subwords = read_settings(folder, lang)
    return PhraseSettings(Dictionary.load(str(tags)), levels, subwords)


@register_task("translation_with_phrases", dataclass=TranslationConfig)
class PhraseTranslationTask(TranslationTask):
    """fairseq's translation task with the phrases of the source in every batch.

    The phrases are in files next to the binarised source (see phrases/binarize.py). fairseq-interactive reads them from
    its input, in which a tab and a tree follow each sentence; ``from_pretrained`` takes them beside the sentences.
    """

    hub_interface = PhraseHubInterface

    def __init__(self, cfg: TranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        if cfg.truncate_source:
            raise UsageError("--truncate-source would cut sentences and leave their phrases as they are: drop it")
        first, *others = [phrase_settings(Path(path), cfg.source_lang) for path in utils.split_paths(cfg.data)]
        for other in others:
            if other.tags.symbols != first.tags.symbols or other[1:] != first[1:]:
                raise UsageError(
                    f"{cfg.data}: folders whose phrases have other tags, levels or subwords: prepare each of them with "
                    "the --tag-dictionary of the first"
                )
        self.tag_dictionary, self.phrase_levels, self.subwords = first
        self._supervised = False  # whether the model predicts tags
        # fairseq-interactive drops the phrases of its input before it makes a data set.
        self._input_phrases: list[Levels] = []
        # It also drops them between making a batch and generating from it. Keys: the batches' tokens.
        self._batch_phrases: dict[bytes, deque[Tensor]] = {}

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a split with its phrases. Raises UsageError where they are missing or of other sentences."""
        super().load_dataset(split, epoch, combine, **kwargs)
        paths = utils.split_paths(self.cfg.data)
        path = Path(paths[(epoch - 1) % len(paths)] if split == self.cfg.train_subset else paths[0])
        parts = [PhraseData(prefix) for prefix in self._prefixes(path, split, combine)]
        if not parts:
            raise UsageError(f"{path}: phrases need binarised text ({split}.*.idx): leave --dataset-impl out")
        pairs = self.datasets[split]
        source = pairs.src.dataset if self.cfg.num_batch_buckets > 0 else pairs.src  # sizes without padding to buckets
        for part, its_source in zip(parts, source.datasets if len(parts) > 1 else [source], strict=True):
            part.check(its_source.sizes, self.phrase_levels)
        phrases = join_phrases(parts, self.cfg.upsample_primary)
        self.datasets[split] = PhrasePairDataset(pairs, phrases, self.tag_dictionary)

    def _prefixes(self, folder: Path, split: str, combine: bool) -> list[Path]:
        """Return the prefixes of the phrases of a split's data sets: train, and with ``combine`` train1, ….

        They are the data sets that fairseq's load_langpair_dataset concatenates.
        """
        src, tgt = self.cfg.source_lang, self.cfg.target_lang
        found = []
        for number in itertools.count() if combine else range(1):
            name = f"{split}{number or ''}"
            sources = [folder / f"{name}.{pair}.{src}" for pair in (f"{src}-{tgt}", f"{tgt}-{src}")]
            existing = [source for source in sources if source.with_name(f"{source.name}.idx").exists()]
            if not existing:
                break
            found.append(existing[0].with_name(f"{existing[0].name}.phrases"))
        return found

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Return the model. Raises UsageError for an architecture without phrases."""
        model = super().build_model(cfg, from_checkpoint)
        if not hasattr(model.encoder, "head_levels"):
            raise UsageError(f"{getattr(cfg, '_name', None) or cfg.arch} reads no phrases: use --task translation")
        self._supervised = model.encoder.tag_proj is not None
        return model

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Return the criterion. Raises UsageError unless it trains tags exactly if the model predicts them."""
        criterion = super().build_criterion(cfg, from_checkpoint)
        if isinstance(criterion, LabelSmoothedCrossEntropyWithPhraseTags) and not self._supervised:
            raise UsageError(
                f"the model predicts no phrase tags: give --mgsa-tags, or another criterion than {TAGGING}"
            )
        if self._supervised and not isinstance(criterion, LabelSmoothedCrossEntropyWithPhraseTags):
            raise UsageError(f"--mgsa-tags needs a criterion that trains the tags: --criterion {TAGGING}")
        return criterion

    # ------------------------------------------------------------------ interactive use

    def get_interactive_tokens_and_lengths(self, lines: list[str], encode_fn: Any) -> tuple[list[Tensor], list[int]]:
        """Return the tokens of each line and their number; the phrases are kept for the data set.

        A line is a sentence, a tab, and the sentence's tree in brackets, or () for one-word phrases; it may be blank.
        Raises SentenceError for any other line.
        """
        texts, trees = [], []
        for index, line in enumerate(lines):
            text, tab, tree = line.partition("\t")
            if not tab and text.strip() == NO_TREE:  # of an empty sentence, whose tab fairseq-interactive strips
                text = ""
            if not tab and text.strip():
                raise SentenceError(
                    f"{text!r} has no tree: give the sentence, a tab, and its tree in brackets, or {NO_TREE} where "
                    "there is none (--constraints, which are given after tabs as well, cannot be used)",
                    index,
                )
            texts.append(text)
            trees.append(tree)
        self.keep_phrases(texts, trees, encode_fn)
        return super().get_interactive_tokens_and_lengths(texts, encode_fn)

    def keep_phrases(self, texts: Sequence[str], trees: Sequence[str], encode_fn: Callable[[str], str]) -> None:
        """Keep the phrases of sentences for the data set that :meth:`build_dataset_for_inference` makes of them.

        ``trees`` are in brackets; ``()`` or a blank is for one-word phrases. ``encode_fn`` splits a text into subwords.
        Raises SentenceError for a tree that cannot be read or has other words.
        """
        self._input_phrases = []
        for index, (text, tree) in enumerate(zip(texts, trees, strict=True)):
            tree = "" if tree.strip() == NO_TREE else tree
            try:
                packed = phrases_of_sentence(
                    encode_fn(text).split(), tree, self.phrase_levels, self.subwords, tags=self.tag_dictionary
                )
            except TreeError as error:
                raise SentenceError(f"{text!r} and its tree: {error}", index) from None
            self._input_phrases.append(levels_of(packed))

    def build_dataset_for_inference(
        self, src_tokens: list[Tensor], src_lengths: list[int], constraints: Tensor | None = None
    ) -> PhrasePairDataset:
        """Return a data set of the sentences that :meth:`get_interactive_tokens_and_lengths` has just read."""
        if len(self._input_phrases) != len(src_tokens):
            raise UsageError(
                "each sentence needs its tree: give fairseq-interactive the sentence, a tab, the tree; in Python "
                "translate(sentences, trees=[…]) of what from_pretrained returns"
            )
        pairs = super().build_dataset_for_inference(src_tokens, src_lengths, constraints)
        phrases, self._input_phrases = self._input_phrases, []
        return InteractivePhraseDataset(pairs, phrases, self.tag_dictionary, self._batch_phrases)

    def inference_step(self, generator: Any, models: list[Any], sample: dict[str, Any], *args: Any, **kw: Any) -> Any:
        """Generate from a batch; add its phrases where fairseq-interactive made a new sample of the tokens only."""
        net_input = sample["net_input"]
        if "src_phrases" in net_input:
            self._batch_phrases.clear()  # this batch has its phrases: none need to be found by key
        else:
            key = tensor_key(net_input["src_tokens"])
            batches = self._batch_phrases.get(key)
            if not batches:
                raise UsageError("these sentences came without their phrases; see the task translation_with_phrases")
            phrases = batches.popleft().to(net_input["src_tokens"].device)
            if not batches:
                del self._batch_phrases[key]
            sample = {**sample, "net_input": {**net_input, "src_phrases": phrases}}
        return super().inference_step(generator, models, sample, *args, **kw)


class InteractivePhraseDataset(PhrasePairDataset):
    """A data set that stores the phrases of each batch in ``batch_phrases`` as well, by the batch's tokens."""

    def __init__(
        self,
        pairs: LanguagePairDataset,
        phrases: list[Levels],
        tags: Dictionary,
        batch_phrases: dict[bytes, deque[Tensor]],
    ) -> None:
        super().__init__(pairs, phrases, tags)
        self.batch_phrases = batch_phrases

    def collater(self, samples: list[dict[str, Any]], pad_to_length: dict[str, int] | None = None) -> dict[str, Any]:
        """Return the batch and store its phrases."""
        batch = super().collater(samples, pad_to_length)
        if batch:
            net_input = batch["net_input"]
            key = tensor_key(net_input["src_tokens"])
            self.batch_phrases.setdefault(key, deque()).append(net_input["src_phrases"])
        return batch


def tensor_key(tokens: Tensor) -> bytes:
    """Return shape and contents of a tensor of indices, as a key of dictionaries."""
    return bytes(str(tuple(tokens.shape)), "ascii") + tokens.to("cpu", torch.long).numpy().tobytes()
