"""fairseq's models with LocalAttention: Transformer, language model, classifier; placement and named architectures."""
