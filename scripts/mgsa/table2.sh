#!/usr/bin/env bash
# Table 2 of Hao et al. 2019, which layers: prepares the data, trains, decodes and scores the rows of configs/mgsa/table2.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mgsa table2 "$@"
