"""Training and decoding: processes, steps, launch on one or more machines, checkpoints, progress."""
