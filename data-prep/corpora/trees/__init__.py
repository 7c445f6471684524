"""Constituency trees: a parser that is applied or trained, treebanks."""
