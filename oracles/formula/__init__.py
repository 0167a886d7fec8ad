"""Formulas: the meaning of an op, written once in Python over symbolic tensors, and its evaluations. `trace` makes the
graph of a formula, and `contract` states what a kernel promises about its operations. All other modules read the graph:
`exact` calculates its value, `affine` how far a correct kernel may stray from the value, `tiers` which outputs are
allowed, and `simulated` what correct kernels may return. `algorithm` and `gradient` make other graphs from it."""
