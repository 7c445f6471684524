"""The preparations of corpora, behind data-prep/prepare_<data>.sh: a list of steps a corpus."""
