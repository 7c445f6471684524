#!/usr/bin/env bash
# Table 5 of Fan et al. 2021, how local attention is: prepares the data, trains, decodes and scores the rows of configs/man/table5.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table man table5 "$@"
