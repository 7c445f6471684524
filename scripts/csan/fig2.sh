#!/usr/bin/env bash
# Figure 2 of Yang et al. 2019, BLEU by window and by number of heads: prepares the data, trains, decodes and scores the rows of configs/csan/fig2.yaml, and draws them.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start figure csan fig2 "$@"
