"""transformer_mgsa: Multi-Granularity Self-Attention (Hao et al., EMNLP 2019). The attention: mechanisms/phrasal.py."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..errors import UsageError
from ..mechanisms.phrasal import MultiGranularityAttention, parse_granularities
from ..mechanisms.phrase_memory.compose import COMPOSITIONS, INTERACTIONS
from ..models.architectures import register_architecture
from ..models.layers.phrase_encoder import PhraseEncoder
from ..models.transformer import LocalTransformerModel

PARTITIONS = ("ngram", "syntactic")
NEEDS_TREES = "--mgsa-partition syntactic takes phrases from trees: give --task translation_with_phrases, or take ngram"
DEFAULT_HEADS = {"ngram": "word,2,3,4", "syntactic": "word,1,2,3"}


@dataclass
class MGSAOptions(FairseqDataclass):
    """The defaults are the paper's best model, but for its tag supervision, which needs a criterion as well."""

    mgsa_partition: ChoiceEnum(PARTITIONS) = field(  # type: ignore[valid-type]
        default="syntactic",
        metadata={"help": "what makes a phrase: ngram, or syntactic (needs --task translation_with_phrases)"},
    )
    mgsa_heads: str = field(
        default="",
        metadata={
            "help": "heads of words, and heads of phrases by the n of n-grams or the level of the tree: equal shares "
            "as in word,2,3,4 (default of ngram) or word,1,2,3 (default of syntactic), or counts as in word:1,2:3"
        },
    )
    mgsa_composition: ChoiceEnum(COMPOSITIONS) = field(  # type: ignore[valid-type]
        default="sans", metadata={"help": "how words make a phrase: max, lstm, or sans (self-attention)"}
    )
    mgsa_interaction: ChoiceEnum(INTERACTIONS) = field(  # type: ignore[valid-type]
        default="onlstm", metadata={"help": "what runs over the phrases: none, lstm or onlstm"}
    )
    mgsa_chunk: int = field(
        default=1, metadata={"help": "channels that share a value of ON-LSTM's master gates; divides a head's"}
    )
    mgsa_tags: bool = field(
        default=False,
        metadata={"help": "tag supervision; with --criterion label_smoothed_cross_entropy_with_phrase_tags"},
    )
    mgsa_encoder_layers: str = field(
        default="1", metadata={"help": "layers with phrases: all, none, or numbers from 1 (1-3, 1,4-6)"}
    )


def heads_of(options: Any, heads: int) -> tuple[tuple[int, ...], int]:
    """The granularity of each head of phrases, and the number of heads of words. Raises ValueError."""
    return parse_granularities(options.mgsa_heads or DEFAULT_HEADS[str(options.mgsa_partition)], heads)


@register_model("transformer_mgsa")
class MGSATransformer(LocalTransformerModel):
    prefix, options, sites = "mgsa", MGSAOptions, ("encoder",)
    phrase_task = "translation_with_phrases"

    @classmethod
    def make_attention(cls, options: Any, site: str, **kwargs: Any) -> LocalAttention:
        granularities, _ = heads_of(options, kwargs["num_heads"])
        distinct = sorted(set(granularities))
        return MultiGranularityAttention(
            granularities=[distinct.index(each) for each in granularities],
            composition=str(options.mgsa_composition),
            interaction=str(options.mgsa_interaction),
            chunk=options.mgsa_chunk,
            **kwargs,
        )

    @classmethod
    def placement(cls, options: Any, cfg: TransformerConfig) -> Any:
        if options.mgsa_tags and str(options.mgsa_partition) != "syntactic":
            raise UsageError("--mgsa-tags: n-grams have no tags; give --mgsa-partition syntactic, or leave it out")
        return super().placement(options, cfg)

    @classmethod
    def check(cls, args: Namespace) -> None:
        super().check(args)
        syntactic = str(args.mgsa_partition) == "syntactic" and cls.attentions(TransformerConfig.from_namespace(args))
        if syntactic and syntactic.placement.sites and getattr(args, "task", None) == "translation":
            raise UsageError(NEEDS_TREES)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "MGSATransformer":
        """Raises UsageError when the phrases are a tree's, and the task does not give them, or not these levels."""
        model = super().build_model(args, task)
        if model.encoder.needs_phrases:
            check_task(task, max(model.encoder.granularities))
            if args.mgsa_tags:
                model.encoder.supervise(len(task.tag_dictionary))
        return model

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Dictionary, embed_tokens: nn.Module) -> PhraseEncoder:
        cfg = TransformerConfig.from_namespace(args)
        attentions = cls.attentions(cfg)
        placed = attentions.placement.sites
        distinct = sorted(set(heads_of(args, cfg.encoder.attention_heads)[0])) if placed else []
        syntactic = str(args.mgsa_partition) == "syntactic"
        return PhraseEncoder(cfg, src_dict, embed_tokens, attentions, distinct, syntactic)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        return_all_hiddens: bool = True,
        *,
        src_phrases: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """As fairseq's, with ``src_phrases`` (see PhraseEncoder) and the tags' logits in the second result."""
        more = {"src_lengths": src_lengths, "return_all_hiddens": return_all_hiddens}
        encoder_out = self.encoder(src_tokens, src_phrases=src_phrases, **more)
        x, extra = self.decoder(prev_output_tokens, encoder_out=encoder_out, **more, **kwargs)
        return x, {**extra, "tag_logits": self.encoder.tag_logits(encoder_out)}


def check_task(task: Any, level: int) -> None:
    """Raise UsageError unless the task's data have phrases of the tree's ``level``."""
    levels = getattr(task, "phrase_levels", 0)
    if not levels:
        raise UsageError(NEEDS_TREES)
    if level > levels:
        raise UsageError(
            f"--mgsa-heads asks for level {level} of the trees, and the data have {levels}: prepare them with more"
        )


def _register(suffix: str, plain: str) -> None:
    """The syntactic model with ON-LSTM (Table 4), and the n-gram one without interaction (Table 3, row 2)."""
    register_architecture("transformer_mgsa", f"transformer_mgsa{suffix}", plain, MGSAOptions)
    register_architecture(
        "transformer_mgsa",
        f"transformer_mgsa_ngram{suffix}",
        plain,
        MGSAOptions,
        mgsa_partition="ngram",
        mgsa_interaction="none",
    )


_SIZES: Sequence[tuple[str, str]] = (
    ("", "transformer"),
    ("_tiny", "transformer_localattn_tiny"),
    ("_small", "transformer_localattn_small"),
    ("_iwslt_de_en", "transformer_iwslt_de_en"),
    ("_wmt_en_de", "transformer_wmt_en_de"),
    ("_wmt_en_de_big", "transformer_vaswani_wmt_en_de_big"),
)
for _suffix, _plain in _SIZES:
    _register(_suffix, _plain)
