"""What trained models do: measures on their attention, each with a command (``python -m …analysis.locality``)."""
