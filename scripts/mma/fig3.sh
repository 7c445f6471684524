#!/usr/bin/env bash
# Figure 3 of Cui et al. 2019, weights by layer and kind of head: draws them of the trained model of Table 2.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start figure mma fig3 "$@"
