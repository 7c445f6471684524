#!/usr/bin/env bash
# Prepares parallel text of any two languages: check, tokenise, clean, divide, subwords, binarise.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
