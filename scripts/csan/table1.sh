#!/usr/bin/env bash
# Table 1 of Yang et al. 2019, WMT14 En-De: prepares the data, trains, decodes and scores the rows of configs/csan/table1.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table csan table1 "$@"
