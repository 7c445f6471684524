"""A day on one GPU: contract suite, benchmarks and trainings, one after another, to be continued after each stop."""
