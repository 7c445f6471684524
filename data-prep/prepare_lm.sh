#!/usr/bin/env bash
# Prepares a corpus for language models: check, count the words, binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
