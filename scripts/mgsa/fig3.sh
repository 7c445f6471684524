#!/usr/bin/env bash
# Figure 3 of Hao et al. 2019, attention in the layer above MG-SA, mean over the heads: draws it of the trained models of Table 3.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" && start figure mgsa fig3 "$@"
