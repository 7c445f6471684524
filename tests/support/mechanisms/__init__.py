"""Helpers for the tests of kernels and mechanisms: inputs, modules, and slow references from the equations."""
