#!/usr/bin/env bash
# From raw text to constituency trees: check, tokenise, parse. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
