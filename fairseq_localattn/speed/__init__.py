"""Faster layers for fairseq's models, the choice of an attention implementation, and memory of the process."""

from ..registration import register

register()
