#!/usr/bin/env bash
# Table 4 of Hao et al. 2019, two pairs of languages, base and big: prepares the data, trains, decodes and scores the rows of configs/mgsa/table4.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table mgsa table4 "$@"
