"""Elementary functions with certified bounds of their errors, and the same bits on every processor.

`functions` has one file for each function, with a record of it, an `Elementary`, which all other code uses. NumPy's own
`exp`, `tanh` and `sin` depend on the processor, and it has no `erf`. The functions here use only operations whose bits
IEEE 754 or integer arithmetic fix: + - * /, square roots, comparisons, shifts and tables. The processor must round to
nearest and keep subnormal numbers, as NumPy sets it. Importing the package loads neither NumPy nor mpmath.
"""

from __future__ import annotations

from dataclasses import dataclass

CORRECT = 0.5
"""The error in ulp of a function that is rounded correctly."""


class FormulaError(ValueError):
    """A formula that cannot be read. The message names the part at fault."""


@dataclass(frozen=True)
class Bound:
    """The error bound of a result whose exact value y is finite: `relative` * |y| + `absolute`. The absolute part comes
    from gradual underflow, or from an argument next to a zero of a sine. If y rounds to infinity, the result may be
    infinite."""

    relative: float
    absolute: float = 0.0
