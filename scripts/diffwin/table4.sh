#!/usr/bin/env bash
# Table 4 of Nguyen et al. 2020, speed and size: prepares the data, trains, decodes and scores the rows of configs/diffwin/table4.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table diffwin table4 "$@"
