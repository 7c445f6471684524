"""What trainings leave in files, read as data: checkpoints of fairseq. Torch and NumPy alone."""
