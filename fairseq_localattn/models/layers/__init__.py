"""Layers and encoders that differ from fairseq's in more than their attention."""
