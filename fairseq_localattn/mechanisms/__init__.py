"""The papers' attention mechanisms, usable without fairseq."""
