#!/usr/bin/env bash
# Table 1 of Fan et al. 2021, translation, IWSLT14 and WMT14: prepares the data, trains, decodes and scores the rows of configs/man/table1.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table man table1 "$@"
