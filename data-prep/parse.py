#!/usr/bin/env python
"""The command of corpora/trees/parse.py."""

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "scripts"))

from corpora.trees.parse import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
