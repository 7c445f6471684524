#!/usr/bin/env bash
# Table 1 of Nguyen et al. 2020, translation, WMT16 En-De and WMT14 En-Fr: prepares the data, trains, decodes and scores the rows of configs/diffwin/table1.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table diffwin table1 "$@"
