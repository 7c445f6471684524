#!/usr/bin/env bash
# Table 3 of Cui et al. 2019, encoders without positions: prepares the data, trains, decodes and scores the rows of configs/mma/table3.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mma table3 "$@"
