"""Helpers for the tests of data preparation."""
