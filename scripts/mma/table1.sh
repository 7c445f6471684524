#!/usr/bin/env bash
# Table 1 of Cui et al. 2019, WAT17 En-Ja and Ja-En: prepares the data, trains, decodes and scores the rows of configs/mma/table1.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mma table1 "$@"
