"""References in JAX: their jaxprs, traced by `jax.make_jaxpr`, become the steps that a formula is read from.

`tracing` makes a program of a reference, without the calls in it; `recording` goes through two of them in lockstep, and
`evaluation` runs one in float64. All other modules are rules, by the names of JAX's primitives, made of the same parts
as those of torch's operations. jax is imported only where a reference is traced or called.
"""
