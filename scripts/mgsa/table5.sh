#!/usr/bin/env bash
# Table 5 of Hao et al. 2019, probing of encoders: prepares the data, trains, decodes and scores the rows of configs/mgsa/table5.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mgsa table5 "$@"
