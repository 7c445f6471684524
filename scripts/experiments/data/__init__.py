"""Corpora of recipes, prepared by the scripts of data-prep/."""
