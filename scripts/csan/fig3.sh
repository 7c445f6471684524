#!/usr/bin/env bash
# Figure 3 of Yang et al. 2019, gap of BLEU by order of the n-grams: prepares the data, trains, decodes and scores the rows of configs/csan/fig3.yaml, and draws them.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start figure csan fig3 "$@"
