"""The roundings of one simulated kernel, with random choices where a contract leaves something open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracles.doubledouble import F64, DoubleDouble, head
from oracles.dtypes import DOUBLE, Format
from oracles.elementary.function import Elementary
from oracles.elementary.functions import function
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Double, Float64
from oracles.formula.exact.contraction import Axes
from oracles.lazy import lazy
from oracles.rounding import add_rounded, round_to


@dataclass(frozen=True)
class Roundings:
    """The roundings of results and operands in a kernel with this contract."""

    contract: Contract
    random: np.random.Generator

    def result(self, values: F64, dtype: Format) -> F64:
        """Return exact results rounded to a dtype, and perhaps flushed."""
        return self._kept(round_to(values, dtype), dtype)

    def sum(self, a: F64, b: F64, dtype: Format) -> F64:
        """Return a + b, rounded once. float64 would round twice: an unrounded product may have 48 bits."""
        return self._kept(add_rounded(a, b, dtype), dtype)

    def point(self, values: F64, dtype: Format) -> F64:
        """Return values rounded at a point. In a format without infinity overflow becomes NaN."""
        found = round_to(values, dtype)
        return self._kept(found if dtype.infinities else np.where(np.isinf(found), np.nan, found), dtype)

    def taken(self, values: F64, dtype: Format) -> F64:
        """Return operands of this dtype as an operation uses them: perhaps flushed."""
        return self.flushed(values, dtype) if self.contract.flushes_operands else values

    def greatest(self, values: F64, dtype: Format, axes: Axes) -> F64:
        """Return the maximum along axes in a kernel whose comparisons may treat subnormal numbers as zero: it returns
        any of the elements that compare equal, unchanged."""
        low = bool(self.random.integers(2))
        worst, reduce = (np.inf, np.minimum.reduce) if low else (-np.inf, np.maximum.reduce)
        compared = self.flushed(values, dtype)
        most = np.maximum.reduce(compared, axes, keepdims=True, initial=-np.inf)
        found = reduce(np.where(compared == most, values, worst), axes, keepdims=True, initial=worst)
        return np.where(np.isfinite(most), found, most)

    def flushed(self, values: F64, dtype: Format) -> F64:
        """Return the values with each subnormal one replaced by zero with a chance of 1/2."""
        low = (np.abs(values) < dtype.tiny) & (self.random.random(values.shape) < 0.5)
        return np.where(low, np.copysign(0.0, values), values)

    def function(self, of: Elementary, arg: F64, dtype: Format) -> F64:
        """Return a function of `arg`, with random errors within the contract's bounds."""
        bound = self.contract.bound(of.name)
        if bound.flushes:
            arg = self.flushed(arg, dtype)
        if of.reciprocal_of and self.contract.ulp(of.name) == of.usual:
            return self.result(1.0 / self.result(function(of.reciprocal_of).float64.value(arg), dtype), dtype)
        exact = Float64().apply(of, arg)
        if dtype is DOUBLE:  # the float64 function may use up the bound
            exact = head(Double().apply(of, DoubleDouble(arg)))
        if of.name in self.contract.absolute:
            off = 2 * dtype.u * self.contract.besides(of.name).over(arg, arg)
            moved = exact + off * (self._bias or self.random.uniform(-1.0, 1.0, exact.shape))
            exact = np.maximum(moved, 0.0) if of.is_never_negative else moved
        if bound.growth:
            sign = self._bias or self.random.uniform(-1.0, 1.0, exact.shape)
            grown = np.minimum(2 * dtype.u * bound.growth * np.abs(arg), 700.0)
            exact = exact * np.exp(np.where(np.isfinite(arg), grown * sign, 0.0))
        with np.errstate(invalid="ignore"):
            settled = np.abs(arg) >= self.contract.settles(of, dtype.u)
        found = np.where(np.isfinite(arg), self.erring(exact, of.name, dtype), exact)
        if bound.is_partial:
            found = np.where(bound.leaves(arg, arg), self.random.choice([np.nan, np.inf, -7.0], found.shape), found)
        return np.where(settled, Float64().apply(of, np.copysign(np.inf, arg)), found) if settled.any() else found

    def erring(self, exact: F64, name: str, dtype: Format) -> F64:
        """Return the exact value rounded, plus random errors within the contract's bound."""
        bound, rounded = self.contract.bound(name), self.result(exact, dtype)
        if bound.flushes:
            rounded = self.flushed(rounded, dtype)
        most = int(bound.ulp - 0.5)
        if most <= 0:
            return rounded
        exponent = np.maximum(np.frexp(exact)[1] - dtype.precision, dtype.emin - dtype.precision + 1)
        steps = self._bias * most if self._bias else self.random.integers(-most, most + 1, exact.shape)
        moved = round_to(rounded + steps * np.ldexp(1.0, exponent), dtype)
        moved = np.where(np.sign(moved) == np.sign(rounded), moved, np.copysign(0.0, rounded))
        return np.where(np.isfinite(rounded) & (rounded != 0), moved, rounded)

    @lazy
    def _bias(self) -> int:
        """Return the sign of all errors of functions, -1 or 1, or 0 for random signs."""
        return int(self.random.choice([-1, 0, 1]))

    def _kept(self, rounded: F64, dtype: Format) -> F64:
        return self.flushed(rounded, dtype) if self.contract.flushes_results else rounded
