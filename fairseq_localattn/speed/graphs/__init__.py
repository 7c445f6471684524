"""Training steps recorded as CUDA graphs: batches of few shapes, their memory, the recording, and fairseq's trainer."""
