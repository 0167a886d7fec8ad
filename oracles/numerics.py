"""What a kernel promises numerically, as data.

A `Numerics` is a declaration: which dtype accumulates, in what order the sum is formed, how accurate the reciprocal
square root is, where results are rounded. The oracle evaluates the declaration; it never looks at the kernel's code.

This module imports neither NumPy nor mpmath, so that a pack of kernels can be listed without paying for either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Literal, get_args, get_origin, get_type_hints

from oracles.dtypes import form
from oracles.formula.contract import Contract
from oracles.lazy import lazy
from oracles.summation import Any, Lanes, NumericsError, Pairwise, Sequential, Summation, Tiles, VectorLanes

__all__ = [
    "BY_HAND",
    "Any",
    "Contract",
    "Lanes",
    "Numerics",
    "NumericsError",
    "Pairwise",
    "Promises",
    "Sequential",
    "Summation",
    "Tiles",
    "VectorLanes",
]


SEQUENTIAL = Sequential()


@dataclass(frozen=True)
class Numerics:
    """The numeric contract of one kernel. Defaults are those of a plain float32 CPU kernel."""

    accumulate: str = "f32"
    """The dtype in which squares are summed and the reciprocal root is formed; 'input': that of x."""
    summation: Summation = SEQUENTIAL
    """The order of the additions along a row; its longest chain sets the budget."""
    mean: Literal["divide", "reciprocal"] = "divide"
    """The mean is sum / n, or sum * (1/n) with 1/n rounded first."""
    rsqrt_ulp: float | None = None
    """The error bound of the reciprocal square root in ulp; None means correctly rounded sqrt, then correct 1/x."""
    sum_range: Literal["ieee", "exact"] = "ieee"
    """With 'ieee' the sum of squares overflows and underflows as the accumulator does; with 'exact' it must not."""
    multiply: str | None = None
    """The dtype in which elements are multiplied by rstd and weight; None: that of `accumulate`; 'input': that of x."""
    cast: Literal["none", "llama", "gemma"] = "gemma"
    """With 'gemma' there is one cast, at the end; with 'llama' x*rstd is rounded to x's dtype before the weight; with
    'none' everything is done in x's dtype, which needs accumulate='input'."""
    offset: Literal["multiply", "weight"] = "multiply"
    """The dtype in which offset + weight is formed: that of the multiplications, or that of the weight."""
    eps: Literal["accumulate", "input"] = "accumulate"
    """The dtype that eps is rounded to: the accumulator's, or x's (in f16, eps below 2^-25 is 0)."""
    residual: Literal["rounded", "unrounded"] = "rounded"
    """This says whether x + residual is rounded to the residual output's dtype before it is normalised."""
    dx: Literal["x_hat", "rstd3"] = "x_hat"
    """The formula is dx = rstd (m - x_hat mean(x_hat m)), or rstd m - rstd^3 mean(m x) x with the cube formed (it may
    overflow)."""
    dw_accumulate: str = "f32"
    """The dtype in which dw is summed over rows; 'input': that of x."""
    dw_summation: Summation = SEQUENTIAL
    """The order of the additions over rows."""
    denormals: Literal["preserve", "flush"] = "preserve"
    """With 'flush' a subnormal operand or result may be replaced by zero anywhere."""
    nonfinite: Literal["ieee", "unspecified"] = "ieee"
    """With 'ieee' NaN, inf and overflow do as IEEE arithmetic says; with 'unspecified' (fast math) such rows are not
    judged."""
    saturate: bool = False
    """True: the last cast turns what overflows into the largest finite number."""

    def __post_init__(self) -> None:
        for name, options in _CHOICES.items():
            if (value := getattr(self, name)) not in options:
                raise NumericsError(f"{name}: {value!r} is not one of {', '.join(options)}")
        for name in ("accumulate", "multiply", "dw_accumulate"):
            value = getattr(self, name)
            if value not in (None, "input") and form(value, name).itemsize == 1:
                raise NumericsError(f"{name}: {value} is a storage format, not one to calculate in")
        if self.rsqrt_ulp is not None and not 0 < self.rsqrt_ulp < 2**20:
            raise NumericsError(f"rsqrt_ulp: must be positive and sensible, not {self.rsqrt_ulp}")
        if self.cast == "none" and (self.accumulate != "input" or self.multiply not in (None, "input")):
            raise NumericsError("cast: 'none' does everything in x's dtype, so accumulate must be 'input'")

    def __hash__(self) -> int:
        return self._hash

    @lazy
    def _hash(self) -> int:
        # Kept: every judged output looks its contract up several times, and it has many fields.
        return hash(tuple(getattr(self, each.name) for each in fields(self)))

    @lazy
    def apart_from_summation(self) -> object:
        """Equal for contracts that differ in nothing but the order of the additions along a row."""
        return tuple(getattr(self, each.name) for each in fields(self) if each.name != "summation")

    def at(self, vector_bits: int | None) -> Numerics:
        """The same contract with a scalable summation resolved for vectors of `vector_bits`."""
        if vector_bits is None or not isinstance(self.summation, VectorLanes):
            return self
        return replace(self, summation=self.summation.at(vector_bits))

    def settled(self, dtype: str) -> Numerics:
        """The same contract with 'input' and None replaced, for an x of `dtype`; cast 'none' becomes 'llama' in it."""
        return _settled(self, dtype)


Promises = Numerics | Contract
"""What kernels promise."""
BY_HAND: tuple[str, ...] = ()
"""The ops whose oracle is written by hand. Their kernels promise `Numerics`, those of all others a `Contract`."""


@lru_cache(maxsize=4096)
def _settled(numerics: Numerics, dtype: str) -> Numerics:
    accumulate = dtype if numerics.accumulate == "input" else numerics.accumulate
    return replace(
        numerics,
        accumulate=accumulate,
        multiply={None: accumulate, "input": dtype}.get(numerics.multiply, numerics.multiply),
        dw_accumulate=dtype if numerics.dw_accumulate == "input" else numerics.dw_accumulate,
        eps="input" if numerics.cast == "none" else numerics.eps,
        # Once every dtype is that of x, rounding after each step is rounding x_hat before the weight.
        cast="llama" if numerics.cast == "none" else numerics.cast,
    )


Groups = Sequence[Mapping[Numerics, Numerics]]


@lru_cache(maxsize=4096)
def alike(contracts: tuple[Numerics, ...], dtype: str) -> Groups:
    """Contracts, and what they are when settled for an x of `dtype`, by groups that differ in their summation alone."""
    groups: dict[object, dict[Numerics, Numerics]] = {}
    for numerics in contracts:
        settled = numerics.settled(dtype)
        groups.setdefault(settled.apart_from_summation, {})[numerics] = settled
    return tuple(groups.values())


_CHOICES = {name: get_args(hint) for name, hint in get_type_hints(Numerics).items() if get_origin(hint) is Literal}
"""The allowed values of the fields that have a closed list of them."""
