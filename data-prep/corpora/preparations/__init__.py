"""The preparations of corpora, behind the doors data-prep/prepare_<data>.sh: a list of steps a corpus."""
