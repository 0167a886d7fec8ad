"""Formulas: an op's meaning, written once in Python over symbolic tensors, and its evaluations. `trace` makes a graph
of the formula, and `contract` says what a kernel promises about it. Everything else reads that graph: `exact` for its
value, `affine` for how far a correct kernel may stray, `tiers` for what outputs may be, and `simulated` for kernels
that are correct. `algorithm` and `gradient` make other graphs of it."""
