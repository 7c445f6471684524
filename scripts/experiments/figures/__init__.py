"""The papers' figures: drawn from scores, or from the weights of trained models."""
