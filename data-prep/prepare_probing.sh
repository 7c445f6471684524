#!/usr/bin/env bash
# Prepares the probing tasks from constituency trees: labels, BPE, binarise, phrases. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
