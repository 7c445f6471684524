"""Soft masks and attention weights of a sentence pair, drawn side by side."""
