#!/usr/bin/env bash
# Beside the tables of Nguyen et al. 2020, SST with five classes: prepares the data, trains, decodes and scores the rows of configs/diffwin/others.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table diffwin others "$@"
