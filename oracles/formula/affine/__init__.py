"""How far a correct kernel may stray: a formula read over affine forms, of a value and of what rounding does to it.

`budget` reads the whole formula; the other modules say what one operation does to forms.
"""
