#!/usr/bin/env python
"""Command of corpora/mini/trees.py."""

import sys

from corpora.mini.trees import main

if __name__ == "__main__":
    sys.exit(main())
