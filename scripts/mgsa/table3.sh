#!/usr/bin/env bash
# Table 3 of Hao et al. 2019, partition, tags and interaction: prepares the data, trains, decodes and scores the rows of configs/mgsa/table3.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mgsa table3 "$@"
