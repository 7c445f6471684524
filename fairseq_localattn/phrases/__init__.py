"""Syntactic phrases of the source: constituency trees, their projection to subwords, and their binarised form."""
