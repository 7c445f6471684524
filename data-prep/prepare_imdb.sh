#!/usr/bin/env bash
# Prepares the IMDB film reviews: get, check, tokenise, count the words, binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
