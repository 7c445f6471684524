"""Attentions with learned masks as kernels of their own on a GPU, written in Triton.

Triton is imported where a kernel is launched, by the modules ``*_kernels`` and ``tiles`` alone: the package works
without it. Every other module here holds operators of torch (:mod:`.operators`) and the functions that call them.

Shapes: B sentences, H heads, T queries, S keys, C channels, D channels a head.
"""
