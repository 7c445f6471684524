#!/usr/bin/env bash
# Table 1 of Hao et al. 2019, how words make a phrase: prepares the data, trains, decodes and scores the rows of configs/mgsa/table1.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mgsa table1 "$@"
