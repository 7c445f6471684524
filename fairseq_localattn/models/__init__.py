"""fairseq's models with LocalAttention: Transformer, language model, classifier; placement and named architectures."""

from ..registration import register

register()
