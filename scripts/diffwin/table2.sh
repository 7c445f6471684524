#!/usr/bin/env bash
# Table 2 of Nguyen et al. 2020, where windows stand: prepares the data, trains, decodes and scores the rows of configs/diffwin/table2.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table diffwin table2 "$@"
