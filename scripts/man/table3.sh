#!/usr/bin/env bash
# Table 3 of Fan et al. 2021, orders of the sublayers: prepares the data, trains, decodes and scores the rows of configs/man/table3.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table man table3 "$@"
