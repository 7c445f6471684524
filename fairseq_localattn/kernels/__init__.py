"""Computations on tensors: masks, windows, attention as matrix products or in bands, dropout, joint projections."""
