"""Elementary functions with certified bounds of their errors, and the same bits on every processor.

`functions` has one file a function; everything else knows a function by the record there, an `Elementary`. NumPy picks
its own `exp`, `tanh` and `sin` by processor and has no `erf`; these are made only of operations that IEEE 754 and
integers fix to the bit: + - * /, square roots, comparisons, shifts and tables. The processor must round to nearest and
keep subnormal numbers, as NumPy leaves it. Importing the package loads neither NumPy nor mpmath; its modules do.
"""

from __future__ import annotations

from dataclasses import dataclass

CORRECT = 0.5
"""The error in ulp of a function that is rounded correctly."""


class FormulaError(ValueError):
    """A formula that cannot be read. The message says which part of it."""


@dataclass(frozen=True)
class Bound:
    """The error bound of a result whose exact value y is finite: at most relative |y| + absolute. `absolute` is the
    cost of gradual underflow, or of an argument next to a zero of a sine. If y rounds to infinity, so may the
    result."""

    relative: float
    absolute: float = 0.0
