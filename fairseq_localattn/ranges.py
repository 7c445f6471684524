"""Bounds of the numbers that options may have."""

# The lowest and the highest number of an option by the last word of its name; more is certainly a typing error.
RANGES = {
    "dim": (1, 1_000_000),
    "graphs": (0, 1_000),
    "heads": (1, 10_000),
    "layers": (0, 1_000),
    "positions": (1, 1_000_000),
}
