#!/usr/bin/env bash
# Table 5 of Nguyen et al. 2020, classification, SST, IMDB and SVA: prepares the data, trains, decodes and scores the rows of configs/diffwin/table5.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table diffwin table5 "$@"
