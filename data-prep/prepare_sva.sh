#!/usr/bin/env bash
# Prepares the subject-verb agreement of Linzen et al. (2016): get, check, divide, count the words, binarise.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
