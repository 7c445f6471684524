"""Readers of published corpora, one a file."""
