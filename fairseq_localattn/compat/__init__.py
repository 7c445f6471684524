"""Repairs of fairseq for today's PyTorch and NumPy, and checkpoints that are read without running code."""

from ..registration import register

register()
