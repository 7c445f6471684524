#!/usr/bin/env bash
# Table 2 of Yang et al. 2019, three pairs of languages, base and big: prepares the data, trains, decodes and scores the rows of configs/csan/table2.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table csan table2 "$@"
