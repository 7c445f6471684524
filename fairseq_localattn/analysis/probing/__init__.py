"""Probing: which labels of five tasks a classifier finds in an encoder's states (Table 5 of Hao et al., EMNLP 2019)."""
