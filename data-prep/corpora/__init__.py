"""Corpora: read from their sources, checked, tokenised, split into subwords, parsed, generated."""
