"""What makes fairseq's layers and a process faster, and the choice of an implementation of attention."""
