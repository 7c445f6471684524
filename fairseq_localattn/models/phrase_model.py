"""Translation models whose encoder may have heads of phrases, of n-grams or of constituency trees."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, ClassVar

from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from ..errors import UsageError
from .layers.phrase_encoder import PhraseEncoder, PhraseEncoderLayer
from .transformer import LocalTransformerModel


class PhraseModel(LocalTransformerModel):
    """fairseq's Transformer with phrases in the encoder, where the text of the encoder has ``ngram`` or ``tree``."""

    #: fairseq's task that provides the phrases of trees.
    phrase_task: ClassVar[str] = "translation_with_phrases"
    #: What the error says of a task without trees.
    needs_trees: ClassVar[str] = (
        "phrases of trees come with the data: give --task translation_with_phrases, or take ngram in the place of tree"
    )
    #: The flag that chooses the levels of the trees.
    heads_flag: ClassVar[str] = "--localattn-encoder"
    encoder_layer = PhraseEncoderLayer

    @classmethod
    def check_args(cls, args: Namespace) -> None:
        """Raise UsageError also for phrases of trees in a task without them."""
        super().check_args(args)
        if getattr(args, "task", None) == "translation":
            found = cls.attention_builder(TransformerConfig.from_namespace(args)).mechanisms("encoder")
            if any(each.word == "tree" for each in found):
                raise UsageError(cls.needs_trees)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> PhraseModel:
        """Return a new model; called by fairseq.

        Raises UsageError for invalid options, and where the model needs levels of trees that the task does not have.
        """
        model = super().build_model(args, task)
        if model.encoder.needs_phrases:
            cls.check_task(task, max(model.encoder.granularities))
        return model

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Dictionary, embed_tokens: nn.Module) -> PhraseEncoder:
        """Return the encoder; called by fairseq's ``build_model``. Raises UsageError for different kinds of phrases."""
        cfg = TransformerConfig.from_namespace(args)
        builder = cls.attention_builder(cfg)
        granularities, of_trees = builder.phrases()
        phrases: dict[str, Any] = {"granularities": granularities, "needs_phrases": of_trees}
        layer = cls.encoder_layer
        return PhraseEncoder(cfg, src_dict, embed_tokens, builder=builder, layer_class=layer, **phrases)

    @classmethod
    def check_task(cls, task: Any, level: int) -> None:
        """Raise UsageError unless the task's data have phrases down to ``level`` (from 1) of the trees."""
        levels = getattr(task, "phrase_levels", 0)
        if not levels:
            raise UsageError(cls.needs_trees)
        if level > levels:
            raise UsageError(
                f"{cls.heads_flag} asks for level {level} of the trees, and the data have {levels}: give "
                f"phrases.binarize --levels {level}"
            )

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
        """Return the decoder's logits and extra results as fairseq does, with the tags' logits as ``tag_logits``.

        ``src_phrases``: lengths of the phrases B×K×P, see :meth:`PhraseEncoder.forward`.
        """
        shared = {"src_lengths": src_lengths, "return_all_hiddens": return_all_hiddens}
        encoder_out = self.encoder(src_tokens, src_phrases=src_phrases, **shared)
        x, extra = self.decoder(prev_output_tokens, encoder_out=encoder_out, **shared, **kwargs)
        return x, {**extra, "tag_logits": self.encoder.tag_logits(encoder_out)}
