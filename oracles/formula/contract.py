"""What a kernel promises about the operations of a formula, as data: dtypes, orders of sums, accuracy of functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from oracles.dtypes import form
from oracles.formula.trace import FUNCTIONS
from oracles.lazy import lazy
from oracles.summation import NumericsError, Sequential, Summation

CORRECT = 0.5
"""The error in ulp of a function that is rounded correctly."""
USUAL: Mapping[str, float] = {
    "divide": CORRECT, "sqrt": CORRECT, "rsqrt": 1.0, "exp": 2.0, "log": 2.0, "tanh": 2.0, "erf": 2.0, "sigmoid": 3.0,
    "sin": 2.0, "cos": 2.0,
}  # fmt: skip
"""The accuracy in ulp of a plain CPU kernel. A rsqrt is a correctly rounded root, then a correctly rounded quotient."""


@dataclass(frozen=True)
class Contract:
    """The numeric contract of one kernel. Defaults are those of a plain float32 CPU kernel.

    Names are those of the formula's locals.
    """

    compute: str = "f32"
    """The dtype of all operations."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """That of the operations which make these locals, where it is another one."""
    sums: Mapping[str, Summation] = field(default_factory=dict)
    """The order of a sum, by its local or else by its dimension; where none is named, one after the other."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """The error bounds of functions in ulp, where they are others than `USUAL`; also of "divide"."""
    points: Mapping[str, str] = field(default_factory=dict)
    """The dtypes that locals are rounded to where the formula says `point`; elsewhere nothing is rounded there."""
    mean: Literal["divide", "reciprocal"] = "divide"
    """A mean is sum / n, or sum * (1/n) with 1/n rounded first."""
    fused: bool = True
    """Whether a product may go into a sum without being rounded."""
    denormals: Literal["preserve", "flush"] = "preserve"
    """With 'flush' a subnormal operand or result may be replaced by zero anywhere."""
    algorithm: Mapping[str, str] = field(default_factory=dict)
    """How locals are calculated, where that is not as the formula says: names from the op's algorithms."""
    nonfinite: Literal["ieee", "unspecified"] = "ieee"
    """With 'ieee' NaN, inf and overflow do as IEEE arithmetic says; with 'unspecified' (fast math) such rows are not
    judged."""
    saturate: bool = False
    """True: the last cast turns what overflows into the largest finite number."""
    zeros: Literal["ieee", "unspecified"] = "ieee"
    """With 'ieee' a zero has the sign that IEEE arithmetic gives it, where every way to calculate it gives the same."""

    def __post_init__(self) -> None:
        for name, dtype in [("compute", self.compute), *self.dtypes.items(), *self.points.items()]:
            if form(dtype, name).itemsize == 1 and name not in self.points:
                raise NumericsError(f"{name}: {dtype} is a storage format, not one to calculate in")
        for name, ulp in self.accuracy.items():
            if name not in USUAL:
                raise NumericsError(f"accuracy: {name!r} is no function; there are {', '.join(USUAL)}")
            if not CORRECT <= ulp < 2**20:
                raise NumericsError(f"accuracy: {name} within {ulp} ulp: it must be at least {CORRECT}, and sensible")

    def __hash__(self) -> int:
        return self._hash

    @lazy
    def _hash(self) -> int:
        values = (getattr(self, each.name) for each in fields(self))
        return hash(tuple(tuple(sorted(v.items(), key=str)) if isinstance(v, Mapping) else v for v in values))

    def settled(self, dtype: str) -> Contract:
        """The same contract for a first input of `dtype`."""
        return self

    def order(self, name: str, dim: str) -> Summation:
        """The order of the sum that makes a local, over a dimension."""
        return self.sums.get(name) or self.sums.get(dim) or Sequential()

    def ulp(self, kind: str) -> float:
        """The error bound of a function."""
        return self.accuracy.get(kind, USUAL[kind])


assert {*USUAL} == {*FUNCTIONS, "divide"}
