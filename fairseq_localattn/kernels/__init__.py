"""Pure functions on tensors: masks, windows, dense and banded attention, dropout, joint projections."""
