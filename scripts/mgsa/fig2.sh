#!/usr/bin/env bash
# Figure 2 of Hao et al. 2019, gap of BLEU by order of the n-grams: prepares the data, trains, decodes and scores the rows of configs/mgsa/fig2.yaml, and draws them.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start figure mgsa fig2 "$@"
