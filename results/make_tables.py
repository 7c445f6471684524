#!/usr/bin/env python
"""The command of scripts/experiments/report/pages.py: makes the tables of all pages, and pictures of gains."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from experiments.report.pages import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
