"""Checks of numbers on command lines."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any


def at_least(least: int, decimal: bool = False) -> Callable[[str], Any]:
    """Return the check of a number from `least`; a decimal one stays the text that it is."""

    def check(text: str) -> int | str:
        form = r"-?[0-9]+(\.[0-9]+)?" if decimal else "[0-9]+"
        if not re.fullmatch(form, text) or float(text) < least:
            raise argparse.ArgumentTypeError(f"needs a number from {least}, got '{text}'")
        return text if decimal else int(text)

    return check
