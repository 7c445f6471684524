"""Attention texts: strings that describe attention.

An example is ``1-3: dman > 4*csan(window=11) + 4*global > ffn; 4-6: san > ffn``.
"""
