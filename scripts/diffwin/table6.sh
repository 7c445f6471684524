#!/usr/bin/env bash
# Table 6 of Nguyen et al. 2020, language models, One Billion Words: prepares the data, trains, decodes and scores the rows of configs/diffwin/table6.yaml.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start table diffwin table6 "$@"
