#!/usr/bin/env bash
# Table 4 of Cui et al. 2019, kinds of heads: prepares the data, trains, decodes and scores the rows of configs/mma/table4.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mma table4 "$@"
