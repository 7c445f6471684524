"""Multi-Granularity Self-Attention (MGSA; Hao et al., EMNLP 2019).

The model ``transformer_mgsa``: its attention is in mechanisms/phrasal.py, its encoder in
models/layers/phrase_encoder.py.
"""

from argparse import Namespace
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig

from ..errors import UsageError
from ..grammar.placement import Placement
from ..mechanisms.phrase_memory.compose import COMPOSITIONS, INTERACTIONS
from ..models.architectures import register_sizes
from ..models.phrase_model import PhraseModel
from ..options import option

PARTITIONS = ("ngram", "syntactic")


@dataclass
class MGSAOptions(FairseqDataclass):
    """Options of MGSA; the defaults are the paper's best model without tag supervision, which needs a criterion."""

    mgsa_partition: ChoiceEnum(PARTITIONS) = option(  # type: ignore[valid-type]
        "syntactic", "what makes a phrase: ngram, or syntactic (needs --task translation_with_phrases)"
    )
    mgsa_heads: str = option(
        "",
        "heads of words, and heads of phrases by the n of n-grams or the level of the tree: equal shares "
        "as in word,2,3,4 (default of ngram) or word,1,2,3 (default of syntactic), or counts as in word:1,2:3",
    )
    mgsa_composition: ChoiceEnum(COMPOSITIONS) = option(  # type: ignore[valid-type]
        "sans", "how words make a phrase: max, lstm, or sans (self-attention)"
    )
    mgsa_interaction: ChoiceEnum(INTERACTIONS) = option("onlstm", "what runs over the phrases: none, lstm or onlstm")  # type: ignore[valid-type]
    mgsa_chunk: int = option(1, "channels that share a value of ON-LSTM's master gates; must divide a head's")
    mgsa_tags: bool = option(False, "tag supervision; with --criterion label_smoothed_cross_entropy_with_phrase_tags")
    mgsa_encoder_layers: str = option("1", "layers with phrases: all, none, or numbers from 1 (1-3, 1,4-6)")


@register_model("transformer_mgsa")
class MGSATransformer(PhraseModel):
    """fairseq's Transformer whose encoder has heads that attend to phrases in chosen layers."""

    prefix, options, sites = "mgsa", MGSAOptions, ("encoder",)
    needs_trees = (
        "--mgsa-partition syntactic takes phrases from trees: give --task translation_with_phrases, or take ngram"
    )
    heads_flag, beyond_text = "--mgsa-heads", ("mgsa_tags",)

    @classmethod
    def placement(cls, options: Any, cfg: TransformerConfig) -> Placement:
        """Return the layers with phrases. Raises UsageError also for the tags of n-grams, which have none."""
        if options.mgsa_tags and str(options.mgsa_partition) != "syntactic":
            raise UsageError("--mgsa-tags: n-grams have no tags; give --mgsa-partition syntactic, or leave it out")
        return super().placement(options, cfg)

    @classmethod
    def check_effects(cls, args: Namespace, cfg: TransformerConfig, given: Set[str]) -> None:
        """Raise UsageError also for chunks without ON-LSTM."""
        super().check_effects(args, cfg, given)
        if str(args.mgsa_interaction) != "onlstm":
            cls.refuse_unused(args, given & {"mgsa_chunk"}, "no layer has --mgsa-interaction onlstm")

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "MGSATransformer":
        """Return a new model, on request with a classifier of tags; called by fairseq."""
        model = super().build_model(args, task)
        if model.encoder.needs_phrases and args.mgsa_tags:
            model.encoder.add_tag_classifier(len(task.tag_dictionary))
        return model


# The syntactic model with ON-LSTM (Table 4), and the n-gram one without interaction (Table 3, row 2).
register_sizes(MGSATransformer)
register_sizes(MGSATransformer, "transformer_mgsa_ngram", mgsa_partition="ngram", mgsa_interaction="none")
