"""Words and subwords: Moses, BPE, SentencePiece, WordPiece, words of Japanese and Chinese, dictionaries."""
