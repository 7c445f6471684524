#!/usr/bin/env bash
# Figure 3 of Nguyen et al. 2020, soft masks beside the attention to the source: draws them of the trained models of Table 1.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start figure diffwin fig3 "$@"
