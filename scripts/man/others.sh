#!/usr/bin/env bash
# Beside the tables of Fan et al. 2021, a pre-norm Transformer: prepares the data, trains, decodes and scores the rows of configs/man/others.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table man others "$@"
