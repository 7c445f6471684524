"""Scores of outputs: BLEU, ROUGE, accuracy, perplexity, significance."""
