#!/usr/bin/env bash
# Prepares the One Billion Word benchmark: get, check, count the words, binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
