"""How far a correct kernel may stray from the exact value.

A formula is evaluated over affine forms: each form is the exact value plus the rounding errors that kernels may make,
to first order with their signs, so that errors which cancel in the formula cancel here. `budget` evaluates the whole
formula; each other module knows some operations.
"""
