"""The papers' attention mechanisms, in torch alone: usable without fairseq."""
