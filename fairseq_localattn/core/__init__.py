"""LocalAttention, whose forward pass every mechanism shares; banded attention; the state of incremental decoding."""
