"""How far a correct kernel may stray: a formula is evaluated over affine forms, which hold a value and its rounding
errors.

`budget` evaluates the whole formula; each other module knows some operations.
"""
