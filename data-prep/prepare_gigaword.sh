#!/usr/bin/env bash
# Prepares Gigaword's headlines (Rush et al. 2015): get, check, WordPieces, binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
