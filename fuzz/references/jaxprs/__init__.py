"""References in JAX: `jax.make_jaxpr` traces them, and their jaxprs become the steps from which a formula is read.

`tracing` turns a reference into a program with all calls inlined; `recording` goes through the programs of two sets of
extents in lockstep; `evaluation` runs a program in float64. The other modules hold rules by names of JAX's primitives,
made of the same parts as the rules of torch's operations. jax is only imported to trace or call a reference.
"""
