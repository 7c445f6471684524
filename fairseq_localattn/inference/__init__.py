"""Trained models without fairseq, on torch and NumPy alone.

>>> trained = load("checkpoints/checkpoint_best.pt", data="data-bin")
>>> search(trained.model, tokens, Options(beam=5))
"""

from .load import Trained, load
from .search import Hypothesis, Options, search

__all__ = ["Hypothesis", "Options", "Trained", "load", "search"]
