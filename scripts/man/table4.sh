#!/usr/bin/env bash
# Table 4 of Fan et al. 2021, static and dynamic masks: prepares the data, trains, decodes and scores the rows of configs/man/table4.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table man table4 "$@"
