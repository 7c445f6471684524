#!/usr/bin/env bash
# Table 5 of Cui et al. 2019, widths of the window: prepares the data, trains, decodes and scores the rows of configs/mma/table5.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mma table5 "$@"
