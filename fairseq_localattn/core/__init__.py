"""LocalAttention, the forward pass that every mechanism shares; attention in bands; the state of decoding."""
