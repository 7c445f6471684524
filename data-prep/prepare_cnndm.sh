#!/usr/bin/env bash
# Prepares CNN/DailyMail, not anonymised (See et al. 2017): get, check, WordPieces, binarise.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
