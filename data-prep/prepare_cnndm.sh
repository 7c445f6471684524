#!/usr/bin/env bash
# Prepares CNN/DailyMail, not anonymised (See et al. 2017): get, check, WordPieces, binarise. Run again, it continues or does
# nothing.
. "$(dirname "${BASH_SOURCE[0]}")/door.sh"
