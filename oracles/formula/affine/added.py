"""Forms of sums whose terms a kernel may add one by one, in any order (see `oracles.formula.chains`).

The bound is that of the worst order: the largest terms come first, so that every partial sum, and with it every
rounding error, is as large as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.formula.affine.errors import Rounding, either, more, rounded
from oracles.formula.affine.forms import ANY, Form, Mask, combined, dust, upwards
from oracles.formula.affine.operations import exactly, reached
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.chains import Addend, Chain, copies
from oracles.formula.trace import Node
from oracles.lazy import lazy

_CLEAR = 1 - 2.0**-12
"""If the sum is at least this share of the sum of magnitudes, no order of the terms overflows to the opposite side."""
_NEVER = 1 << 12
"""An exponent that stands for zero, since zero is a multiple of every power of two."""


def in_any_order(here: SettledProblem, node: Node, chain: Chain, forms: Sequence[Form], *, last: bool) -> Form:
    """Return the form of a chain's sum, given its terms' forms; with `last`, without the last addition's rounding."""
    return _Added(here, node, chain, forms).form(last)


@dataclass(frozen=True, eq=False)
class _Added:
    """A sum whose terms may be added in any order."""

    here: SettledProblem
    last: Node
    chain: Chain
    forms: Sequence[Form]

    def form(self, last: bool) -> Form:
        """Return the form of the sum."""
        here, dtype = self.here, self._dtype
        parts, rest = combined(
            [(form, None if term.sign > 0 else np.full((1,) * form.centre.ndim, -1.0)) for term, form in self._each]
        )
        centre = reached(dtype, _total([term.sign * form.centre for term, form in self._each]), self._half)
        found = Form(
            centre, dtype, ANY if last else dtype.precision, parts, rest, either(self.forms), least=self._least
        )
        found = more(found, np.where(self._exact, 0.0, upwards(self._errors, dtype, self._size)))
        if not last:
            own = upwards(found.size * (dtype.u + dust(dtype)), dtype, found.size)
            found = more(found, np.where(self._exact | (self._count < 2), 0.0, own))
        if here.contract.denormals != "preserve":  # every partial sum may be flushed if it is subnormal
            n = len(self.forms) + sum(here.inputs.count(here.inputs.axes(each)) for each in self._sums)
            found = more(found, np.where(self._count < 2, 0.0, np.minimum(self._size, n * dtype.tiny)))
        finite = _total([np.where(np.isfinite(size), size, 0.0) for size in self._sizes])
        certain = np.where(  # beside an infinite term, others may overflow to the other side first
            np.isinf(self._size), finite * (1 + self._worst) < dtype.limit, self._size * _CLEAR <= np.abs(found.centre)
        )
        return rounded(
            found, Rounding(underflow=0.0, top=self._size * (1 + self._worst), certain=certain), here.contract
        )

    @lazy
    def _each(self) -> Sequence[tuple[Addend, Form]]:
        return [*zip(self.chain.terms, self.forms, strict=True)]

    @lazy
    def _dtype(self) -> Format:
        return self.here.dtype(self.last)

    def _half(self) -> tuple[F64, F64]:
        return (
            _total([term.sign * form.centre / 2 for term, form in self._each]),
            _total([self.here.far(form) / 2 for form in self.forms]),
        )

    @lazy
    def _sums(self) -> Sequence[Node]:
        """Return the terms that are sums themselves and whose own terms a kernel may add together with the others."""
        return [
            term.node
            for term in self.chain.terms
            if self.here.starts(term.node)
            and self.here.dtype(term.node).name == self._dtype.name
            and self.last.dims.isdisjoint(term.node.over)
        ]

    @lazy
    def _sizes(self) -> Sequence[F64]:
        """Return the magnitude of each term. For a term that is a sum, it is the sum of the magnitudes of its terms."""
        return [self.here.sizes[term.node] if term.node in self._sums else form.size for term, form in self._each]

    @lazy
    def _size(self) -> F64:
        return _total(self._sizes)

    @lazy
    def _count(self) -> F64:
        """Return the number of nonzero terms, since adding zero changes nothing; 3 a counts as a + a + a."""
        return _total([np.where(size != 0, times, 0.0) for times, size in zip(self._times, self._sizes, strict=True)])

    @lazy
    def _times(self) -> Sequence[int]:
        return [copies(term.node) for term in self.chain.terms]

    @lazy
    def _partial(self) -> F64:
        """Return an upper bound for the sum of the magnitudes of all partial sums before the last addition: the largest
        terms are added first, one by one. If a term is a sum, any of its terms may come first."""
        if self._sums:
            return self._size * np.maximum(self._count - 2, 0.0)
        each = [size / times for times, size in zip(self._times, self._sizes, strict=True) for _ in range(times)]
        ordered = np.sort(np.stack(np.broadcast_arrays(*each)), axis=0)[::-1]
        found: F64 = ordered[0] * np.maximum(self._count - 2, 0.0)
        for place, size in enumerate(ordered[1:], 2):
            found = found + size * np.maximum(self._count - place, 0.0)
        return found

    def _growth(self, times: F64) -> F64:
        found: F64 = np.expm1(times * np.log1p(self._dtype.u))
        return found

    @lazy
    def _of_sums(self) -> Sequence[F64 | float]:
        """Return the relative errors of those terms that are sums and whose terms a kernel may add with the others."""
        return [self.here.sum_errors(each, True)[1] + 2 * self._dtype.u for each in self._sums]

    @lazy
    def _errors(self) -> F64:
        """Return the worst-case error before the last addition, without the errors of terms that are sums. It is not
        the statistical error: a term far smaller than another one is lost, so that roundings are not random."""
        found = self._partial * (self._dtype.u * (1 + self._growth(self._count)) + dust(self._dtype))
        for each, errors in zip(self._sums, self._of_sums, strict=True):
            found = found + (self._size - self.here.sizes[each]) * (errors + dust(self._dtype))
        return found

    @lazy
    def _worst(self) -> F64 | float:
        found: F64 | float = self._growth(self._count)
        for each in self._of_sums:
            found = found + each + found * each
        return found

    @lazy
    def _exact(self) -> Mask:
        """Return the mask of elements for which no addition rounds. There all terms are whole multiples of one unit,
        and their magnitudes add up to a number of few bits."""
        alike: Mask = reduce(np.logical_and, [form.spread == 0 for form in self.forms])
        if self._sums or not alike.any():
            return np.zeros((1,) * self.forms[0].centre.ndim, bool)
        parts = [form.centre / times for times, form in zip(self._times, self.forms, strict=True)]
        unit = reduce(np.minimum, map(_unit, parts))
        return alike & (self._size <= np.ldexp(1.0, np.minimum(unit + self._dtype.precision, 1023)))

    @lazy
    def _least(self) -> F64 | None:
        """Return a lower bound for the sum; NaN where a term may be negative, None if a term is subtracted."""
        if any(term.sign < 0 for term in self.chain.terms):
            return None
        known = [exactly(form) if form.least is None else np.fmax(exactly(form), form.least) for form in self.forms]
        total = _total(known)
        positive = reduce(np.logical_and, [each >= 0 for each in known])
        return np.where(positive, np.maximum(total * (1 - self._worst - 2.0**-20), 0.0), np.nan)


def _total(each: Sequence[F64]) -> F64:
    return reduce(add, each)


def _unit(values: F64) -> F64:
    """Return the exponent of the largest power of two that divides each value."""
    fraction, power = np.frexp(values)
    whole = (np.where(np.isfinite(fraction), fraction, 0.5) * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(whole == 0, _NEVER, power - 53 + lowest)
