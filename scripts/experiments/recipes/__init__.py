"""Recipes: YAML files read, checked and expanded into flags of fairseq."""
