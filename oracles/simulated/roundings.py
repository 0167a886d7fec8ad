"""What one simulated kernel in NumPy rounds: its operations, with random choices where a contract leaves something
open; sums, term by term, in the order that the contract declares; and shares e^(score - maximum), rescaled as the
maximum grows, equally in all their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any as Anything
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, head
from oracles.dtypes import DOUBLE, Format
from oracles.elementary.function import Elementary
from oracles.elementary.functions import function
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Double, Float64
from oracles.formula.exact.centre import at_place
from oracles.formula.exact.contraction import Axes
from oracles.lazy import lazy
from oracles.matrix_units import cut, exponents
from oracles.rounding import add_rounded, round_to
from oracles.summation import AnyOrder, Blocks, Lanes, Pairwise, Sequential, Steps, Summation, Tiles

Array = NDArray[Anything]


def total(terms: Array, order: Summation) -> Array:
    """Return the sum of `terms` (..., n) over the last axis in their own dtype, in the declared order."""
    n = terms.shape[-1]
    if n == 0:
        return np.zeros(terms.shape[:-1], terms.dtype)
    if isinstance(order, Sequential | AnyOrder):
        return _chain(terms)
    if isinstance(order, Lanes):
        return _lanes(terms, order)
    if isinstance(order, Tiles):
        return _tree(_columns(terms, order.width))
    assert isinstance(order, Blocks | Pairwise)
    blocks = np.stack([_chain(terms[..., k : k + order.block]) for k in range(0, n, order.block)], axis=-1)
    return _chain(blocks) if isinstance(order, Blocks) else _tree(blocks)


def cut_off(terms: F64, order: Blocks, dtype: Format) -> F64:
    """Return the sum of `terms` (..., n) over the last axis by blocks that truncate; terms may have any bits."""
    found = np.zeros(terms.shape[:-1])
    for k in range(0, terms.shape[-1], order.block):
        added = np.concatenate([found[..., None], terms[..., k : k + order.block]], axis=-1)
        found = cut(added, exponents(added), order.extra, dtype)
    return found


def _chain(terms: Array) -> Array:
    # Unlike reduce, accumulate adds strictly one term after the other.
    return np.asarray(np.add.accumulate(terms, axis=-1)[..., -1])


def _tree(parts: Array) -> Array:
    while parts.shape[-1] > 1:
        half = parts.shape[-1] // 2
        paired = parts[..., :half] + parts[..., half : 2 * half]
        parts = np.concatenate([paired, parts[..., 2 * half :]], axis=-1)
    return parts[..., 0]


def _columns(terms: Array, width: int) -> Array:
    """Return partial sums (..., width) over every width-th term, zero-padded."""
    padding = -terms.shape[-1] % width
    padded = np.concatenate([terms, np.zeros((*terms.shape[:-1], padding), terms.dtype)], axis=-1)
    columns = padded.reshape(*terms.shape[:-1], padded.shape[-1] // width, width)
    return np.asarray(np.add.accumulate(columns, axis=-2)[..., -1, :])


def _lanes(terms: Array, order: Lanes) -> Array:
    block = order.lanes * order.accumulators
    main = terms.shape[-1] // block * block
    partial = _columns(terms[..., :main], block) if main else np.zeros((*terms.shape[:-1], block), terms.dtype)
    tail = terms[..., main:]
    if order.tail == "predicated":
        for start in range(0, tail.shape[-1], order.lanes):
            piece = tail[..., start : start + order.lanes]
            partial[..., : piece.shape[-1]] += piece
        return _tree(partial)
    start_value = _tree(partial)
    return _chain(np.concatenate([start_value[..., None], tail], axis=-1)) if tail.shape[-1] else start_value


Block = tuple[F64, F64]
"""The effect of neighbouring places on a state: the factor by which they multiply it, and the term that they add."""
Advanced = Callable[[F64, F64, F64], F64]
"""A function of h, a and b that returns the state after one place: a h + b."""
_LONGEST_BLOCK = 8


def scanned(
    args: Sequence[F64], axis: int, n: int, way: Literal["places", "blocks", "tree"], random: np.random.Generator,
    advanced: Advanced, product: Callable[[F64, F64], F64],
) -> F64:  # fmt: skip
    """Return all states of a recurrence along an axis. `args` are the factors, the addends, and the initial state."""
    a, b, h = args
    if not n:
        return np.asarray(at_place(a * h + b, axis, slice(0, 0)))
    places = [(at_place(a, axis, place), at_place(b, axis, place)) for place in range(n)]
    if way == "places":
        found = list[F64]()
        for each in places:
            h = advanced(h, *each)
            found.append(h)
        return np.concatenate(found, axis)

    def after(before: Block, block: Block) -> Block:
        return product(before[0], block[0]), advanced(before[1], *block)

    if way == "blocks":
        _carry_on(places, int(random.integers(2, _LONGEST_BLOCK + 1)), after)
    else:
        step = 1
        while step < n:
            places = [after(places[at - step], each) if at >= step else each for at, each in enumerate(places)]
            step *= 2
    return np.concatenate([advanced(h, *each) for each in places], axis)


def _carry_on(places: list[Block], size: int, after: Callable[[Block, Block], Block]) -> None:
    """Replace each place by the joint effect of all places up to it: first within blocks, then from block to block."""
    for first in range(0, len(places), size):
        for place in range(first + 1, min(first + size, len(places))):
            places[place] = after(places[place - 1], places[place])
        for place in range(first, min(first + size, len(places)) if first else first):
            places[place] = after(places[first - 1], places[place])


Function = Callable[[F64], F64]


@dataclass(frozen=True)
class Join:
    """The join of two parts of a sum, given by index, with the factor of each. The result replaces the first part."""

    first: int
    second: int
    factors: tuple[F64, F64]


@dataclass(frozen=True)
class Rescaling:
    """A kernel's course through the scores of each row, which lie along the last axis."""

    places: NDArray[np.intp]
    """The order of the scores' places."""
    shares: Sequence[F64]
    """For each block, the shares relative to the block's maximum."""
    joins: Sequence[Join]

    def total(self, values: F64, summed: Callable[[F64, F64], F64], joined: Callable[[F64, F64, Join], F64]) -> F64:
        """Return the sum of shares times values. `summed` sums a block, `joined` joins two sums."""
        ends = np.cumsum([shares.shape[-1] for shares in self.shares])[:-1]
        blocks = np.split(values[..., self.places], ends, axis=-1)
        parts = [summed(shares, block) for shares, block in zip(self.shares, blocks, strict=True)]
        for each in self.joins:
            parts[each.first] = joined(parts[each.first], parts[each.second], each)
        return parts[0]


def rescaling(
    scores: F64, order: Summation, shuffles: bool, random: np.random.Generator, share: Callable[[F64, F64], F64]
) -> Rescaling:
    """Return a random course through the scores that an order allows. `share` calculates e^(a - b) as the kernel."""
    n = scores.shape[-1]
    size = order.block if isinstance(order, Steps | Blocks) else 1
    places = random.permutation(n) if shuffles else np.arange(n)
    blocks = [scores[..., places[at : at + size]] for at in range(0, n, size)]
    most = [each.max(axis=-1, keepdims=True) for each in blocks]
    shares = [share(*each) for each in zip(blocks, most, strict=True)]
    lanes = len(blocks)
    if isinstance(order, Sequential):
        lanes = 1
    elif isinstance(order, AnyOrder | Blocks):
        lanes = int(random.choice([1, min(3, lanes), lanes]))
    joins = list[Join]()
    for first, second in _pairs(len(blocks), lanes):
        larger = np.maximum(most[first], most[second])
        factors = share(most[first], larger)[..., 0], share(most[second], larger)[..., 0]
        joins.append(Join(first, second, factors))
        most[first] = larger
    return Rescaling(places, shares, joins)


def _pairs(count: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of parts to join: in each lane one part after the other, then the lanes as a tree."""
    for at in range(lanes, count):
        yield at % lanes, at
    step = 1
    while step < lanes:
        for first in range(0, lanes - step, 2 * step):
            yield first, first + step
        step *= 2


Part = tuple[F64, F64, int]
"""A statistic of some terms: their mean and sum of squared deviations, or their maximum and sum of exponentials; then
the number of terms."""


@dataclass(frozen=True)
class Joining:
    """The arithmetic that joins the statistics of two sets of terms."""

    rounding: Roundings
    dtype: Format
    exponentials: Format
    """The dtype of differences from the maximum, and of their exponentials."""

    def moments(self, a: Part, b: Part) -> Part:
        """Return the mean and the squared deviations of the terms of both parts."""
        mean, squares, count = a[0], a[1], a[2] + b[2]
        apart = self._round(b[0] - mean)
        weight = self._round(np.full((1,) * mean.ndim, b[2] / count))
        mean = self._round(mean + self._round(apart * weight))
        if b[2] == 1:
            added = self._round(apart * self._round(b[0] - mean))
        else:
            added = self._round(self._round(apart * apart) * self._round(weight * a[2]))
        return mean, self._round(self._round(squares + b[1]) + added), count

    def rescaled(self, a: Part, b: Part) -> Part:
        """Return the maximum and the sum of exponentials of the terms of both parts."""
        most, sums = np.maximum(a[0], b[0]), []
        for each in (a, b):
            apart = self.rounding.result(each[0] - most, self.exponentials)
            step = np.where(np.isneginf(most), 0.0, apart)  # only masked terms so far
            factor = np.where(step == 0, 1.0, self.rounding.function(function("exp"), step, self.exponentials))
            sums.append(self._round(each[1] * factor))
        return most, self._round(sums[0] + sums[1]), a[2] + b[2]

    def _round(self, values: F64) -> F64:
        return self.rounding.result(values, self.dtype)


def joined(terms: F64, second: float, lanes: int, join: Callable[[Part, Part], Part]) -> Part:
    """Return the statistic (`Part`) of all terms along the last axis. That of a single term has `second` as its second
    number. In each lane one term is joined after the other; then lanes are joined as a tree."""
    single: list[Part] = [
        (terms[..., [at]], np.full_like(terms[..., [at]], second), 1) for at in range(terms.shape[-1])
    ]
    parts = [_folded(single[lane::lanes], join) for lane in range(lanes)]
    while len(parts) > 1:
        parts = [_folded(parts[at : at + 2], join) for at in range(0, len(parts), 2)]
    return parts[0]


def _folded(parts: list[Part], join: Callable[[Part, Part], Part]) -> Part:
    found = parts[0]
    for part in parts[1:]:
        found = join(found, part)
    return found


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
