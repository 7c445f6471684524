"""Trees that several tests use."""

#: The sentence of Figure 1 of Hao et al. 2019.
FIGURE_1 = "(ROOT (S (NP (NNP Bush)) (VP (VBD held) (NP (DT a) (NN talk)) (PP (IN with) (NP (NNP Sharon))))))"
