"""Probing: syntactic labels that a classifier predicts from an encoder's states (Table 5 of Hao et al., EMNLP 2019)."""
