#!/usr/bin/env bash
# Figure 2 of Cui et al. 2019, BLEU by source length: prepares the data, trains, decodes and scores the rows of configs/mma/fig2.yaml, and draws them.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start figure mma fig2 "$@"
