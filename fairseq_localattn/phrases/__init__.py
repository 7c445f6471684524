"""Syntactic phrases as data: constituency trees, their projection to subwords, and their binarised form."""

from ..registration import register

register()
