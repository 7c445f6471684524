#!/usr/bin/env bash
# Table 2 of Fan et al. 2021, summaries, CNN/DM and Gigaword: prepares the data, trains, decodes and scores the rows of configs/man/table2.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table man table2 "$@"
