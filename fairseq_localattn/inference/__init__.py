"""Trained models without fairseq, on torch and NumPy alone.

>>> Translator.load("checkpoints/checkpoint_best.pt", data="data-bin").best(["Das ist gut."])

>>> trained = load("checkpoints/checkpoint_best.pt", data="data-bin")
>>> search(trained.model, tokens, Options(beam=5))
"""

from .load import Trained, load
from .search import Hypothesis, Options, search
from .translator import Translator

__all__ = ["Hypothesis", "Options", "Trained", "Translator", "load", "search"]
