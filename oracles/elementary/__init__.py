"""Elementary functions with certified bounds of their errors, and the same bits on every processor.

`functions` has one file for each function, with a record of it, an `Elementary`, which all other code uses. NumPy's own
`exp`, `tanh` and `sin` depend on the processor, and it has no `erf`. The functions here use only operations whose bits
IEEE 754 or integer arithmetic fix: + - * /, square roots, comparisons, shifts and tables. The processor must round to
nearest and keep subnormal numbers, as NumPy sets it. Importing the package loads neither NumPy nor mpmath.
"""

from __future__ import annotations

CORRECT = 0.5
"""The error in ulp of a function that is rounded correctly."""


class FormulaError(ValueError):
    """A formula that cannot be read. The message names the part at fault."""
