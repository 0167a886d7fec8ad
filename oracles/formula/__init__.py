"""Formulas: an op's meaning, written once in Python over symbolic tensors, and the readings of it.

`trace` makes a graph of the formula. Everything else reads that graph: its exact value, how far a correct kernel may
stray from it, what such kernels return, and its gradient.
"""
