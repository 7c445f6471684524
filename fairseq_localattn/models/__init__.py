"""fairseq's models with LocalAttention: Transformer, language model, classifier; named architectures."""

from ..registration import register

register()
