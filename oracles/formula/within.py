"""How far the results of a function may be off: a number of ulp, which may grow with the argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class Within:
    """The error bound of a function, or of "divide", of a normal result: so many ulp, in which one is 2 u times it.

    The exponential of a GPU is 2^(x log2 e): a kernel rounds the constant, which is off by 0.224 u of itself, and then
    the product, by u. The exponent is off by up to 1.224 u |x| log2 e, so that e^x is off by a factor of
    e^(1.224 u |x|): 0.612 ulp for each unit of |x|, beside what the instruction for 2^t errs by.
    """

    ulp: float
    growth: float = 0.0
    """How many ulp more for each unit of the argument's magnitude: e^x may be off by the factor e^(2 u growth |x|)."""
    flushes: bool = False
    """Whether it may replace subnormal numbers by zero, both those that it takes and those that it returns, whatever
    other operations do."""

    def __repr__(self) -> str:
        grows = f", growth={self.growth!r}" if self.growth else ""
        return f"Within({self.ulp!r}{grows}{', flushes=True' if self.flushes else ''})"

    def __str__(self) -> str:
        grows = f" + {self.growth:g} |x|" if self.growth else ""
        return f"{self.ulp:g}{grows} ulp{', subnormals flushed' if self.flushes else ''}"

    def wider(self, other: Within) -> Within:
        """The wider one in each respect."""
        growth, flushes = max(self.growth, other.growth), self.flushes or other.flushes
        return Within(max(self.ulp, other.ulp), growth, flushes)


def within(bound: float | Within) -> Within:
    """Return the bound that a contract states as a number of ulp or in full."""
    return bound if isinstance(bound, Within) else Within(bound)
