#!/usr/bin/env bash
# import fairseq: what it does to the logging of the program that imports it.
#
# Guess: a library that is imported leaves the root logger alone.
# So:    the root logger goes from WARNING to DEBUG and writes to the standard error: debug lines of all other libraries
#        appear, and a later logging.basicConfig of the program does nothing.
# In:    fairseq-fixed 0.12.3.1, fairseq/models/wav2vec/wav2vec2_classification.py, logging.basicConfig(level=logging.DEBUG)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "before: WARNING, handlers 0
after: DEBUG, handlers 1
after basicConfig(level=ERROR): DEBUG"
import logging

root = logging.getLogger()
print(f"before: {logging.getLevelName(root.level)}, handlers {len(root.handlers)}")
import fairseq  # noqa: E402, F401

print(f"after: {logging.getLevelName(root.level)}, handlers {len(root.handlers)}")
logging.basicConfig(level=logging.ERROR)
print(f"after basicConfig(level=ERROR): {logging.getLevelName(root.level)}")
PYTHON
