"""Bounds of the numbers that options may have."""

from .errors import UsageError

MOST = 10**9  # of a number without bounds of its own; more is certainly a typing error
# The lowest and the highest number of an option by the last word of its name; more is certainly a typing error.
RANGES = {
    "dim": (1, 1_000_000),
    "graphs": (0, 1_000),
    "heads": (1, 10_000),
    "layers": (0, 1_000),
    "positions": (1, 1_000_000),
}


def check_option(flag: str, value: float, lowest: float, highest: float) -> None:
    """Raise UsageError for an option's value that is out of bounds, or NaN."""
    if not lowest <= value <= highest:
        allowed = f"{highest:,} or less" if value > highest else f"{lowest:,} or more"
        raise UsageError(f"{flag} {value}: give {allowed}")


def check_number(what: str, number: int, lowest: int, highest: int | None = None) -> None:
    """Raise ValueError for a number out of bounds; ``what`` is its name in the error."""
    if number < lowest:
        raise ValueError(f"{what} must be {lowest} or more, not {number}")
    if highest is not None and number > highest:
        raise ValueError(f"{what} must be {highest:,} or less, not {number}")
