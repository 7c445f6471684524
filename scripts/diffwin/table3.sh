#!/usr/bin/env bash
# Table 3 of Nguyen et al. 2020, tokens and segments: prepares the data, trains, decodes and scores the rows of configs/diffwin/table3.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table diffwin table3 "$@"
