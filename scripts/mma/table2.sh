#!/usr/bin/env bash
# Table 2 of Cui et al. 2019, IWSLT14 De-En: prepares the data, trains, decodes and scores the rows of configs/mma/table2.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mma table2 "$@"
