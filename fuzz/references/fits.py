"""Numbers that follow from extents: powers of one, or of a product of two, show in two calls; everything else is fitted
to as many calls as tell it from other formulas, and must hold in further ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
from numpy.typing import NDArray

from fuzz.references.dims import Dim, extent
from oracles.formula.made import plus
from oracles.formula.node import Node

_SPARE = 3
"""The number of further calls that a fit must agree with."""
_CLOSE = 1e-9
"""The relative difference that a fit may have from the largest number: it is found in float64."""
_MOST_DENOMINATOR = 64
_MOST_PARTS, _FEW_PARTS = 16, 4
"""The largest divisor of a whole part of an extent, as in n // 16, and the largest if two of them are added."""
_FORMS: Mapping[str, Callable[[float], float]] = {
    "a": lambda value: value, "1.0 / a": lambda value: 1.0 / value, "f.sqrt(a)": lambda value: value**2,
    "f.rsqrt(a)": lambda value: value**-2, "f.sqrt(f.sqrt(a))": lambda value: value**4,
    "f.rsqrt(f.sqrt(a))": lambda value: value**-4, "a * a": math.sqrt, "f.log(a)": math.exp,
}  # fmt: skip
"""What may be made of a linear expression, with the inverse."""
_ROOTS = {1.0: ("a", "1.0 / a"), 0.5: ("f.sqrt(a)", "f.rsqrt(a)"), 0.25: ("f.sqrt(f.sqrt(a))", "f.rsqrt(f.sqrt(a))")}
Calls = Mapping[str, Sequence[int]]
"""The extents of dimensions in all calls."""
Fit = tuple[str, Node]
"""A template of `a`, with the expression that `a` stands for."""


def powers(pair: tuple[float, float], dims: Iterable[Dim]) -> Iterator[Fit]:
    """Return what a number may be that has these values in two calls: a power of an extent, or of one less 1, or of a
    product of two."""
    free = [dim for dim in dims if dim.sizes[0] != dim.sizes[1]]
    for some in (*((dim,) for dim in free), *combinations(free, 2)):
        for less in (0, 1):
            for text, inner in _FORMS.items():
                made = _inner(inner, pair) if text != "f.log(a)" else None
                if made and all(math.isclose(a, size - less) for a, size in zip(made, extent(some), strict=True)):
                    yield text, plus(_extent(dim.name for dim in some), -float(less))


def fitted(values: Sequence[float], calls: Calls) -> Fit | None:
    """Return the expression that has these values in all calls; None if there is none, or if several might be meant."""
    if (found := _monomial(values, calls)) is not None:
        return found
    for text, inner in _FORMS.items():
        of = _inner(inner, values)
        if of is not None and (count := counted(of, calls, whole=text == "a")) is not None:
            return text, count
    return None


def counted(values: Sequence[float], calls: Calls, *, whole: bool = True) -> Node | None:
    """Return the sum of extents, of products of two, and of parts (unless not `whole`), that has these values in all
    calls; None if there is none, or if several might be meant."""
    numbers = np.asarray(values, dtype=np.float64)
    linear = [(_extent([name]), np.asarray(sizes, dtype=np.float64)) for name, sizes in calls.items()]
    few, parts = ([*_parts(linear, most)] if whole else [] for most in (_FEW_PARTS, _MOST_PARTS))
    squares = [_times(*two) for two in combinations_with_replacement(linear, 2)]
    more = (
        [], *([each] for each in (*squares, *parts)), squares, *([_times(*two)] for two in product(parts, linear)),
        *map(list, combinations(few, 2)), *map(list, product(squares, few)),
    )  # fmt: skip
    for some in more:
        terms = [*linear, *some]
        if (factors := _solved(numbers, [column for _, column in terms])) is not None:
            return _sum([*zip(factors, (node for node, _ in terms), strict=False)], factors[-1])
    return None


_Term = tuple[Node, NDArray[np.float64]]


def _parts(linear: Sequence[_Term], most: int) -> Iterator[_Term]:
    """Yield whole parts of extents: n // k, and (n + k - 1) // k, rounded up."""
    for by in range(2, most + 1):
        for node, column in linear:
            for above in range(by):
                whole = Node("function", (plus(node, float(above)) / float(by),), label="floor")
                yield whole, np.floor((column + above) / by)


def _times(one: _Term, other: _Term) -> _Term:
    return one[0] * other[0], one[1] * other[1]


def _solved(numbers: NDArray[np.float64], columns: Sequence[NDArray[np.float64]]) -> Sequence[float] | None:
    """Return the factors of columns, and of 1, whose sum the numbers are; None if there are too few numbers to tell."""
    table = np.stack([*columns, np.ones(len(numbers))], axis=1)
    if len(numbers) < table.shape[1] + _SPARE:
        return None
    scale = np.abs(table).max(axis=0)
    found, _, rank, _ = np.linalg.lstsq(table / scale, numbers, rcond=1e-12)
    factors = [_plain(float(each)) for each in found / scale]
    if rank < table.shape[1] or not _are_close(numbers, table @ np.asarray(factors)):
        return None
    return factors


def _plain(value: float) -> float:
    near = float(Fraction(value).limit_denominator(_MOST_DENOMINATOR))
    return near if abs(near - value) < _CLOSE * max(abs(near), 1.0) else value


def _sum(terms: Sequence[tuple[float, Node]], more: float) -> Node:
    """Return a sum of terms times factors and of a number, subtractions last."""
    found: Node | None = None
    for factor, node in sorted(terms, key=lambda term: term[0] < 0):
        if factor:
            size = abs(factor)
            each = node if size == 1 else node / (1 / size) if (1 / size).is_integer() else node * size
            if found is None:
                found = each if factor > 0 else Node("constant", value=0.0) - each
            else:
                found = found + each if factor > 0 else found - each
    return Node("constant", value=more) if found is None else plus(found, more)


def _monomial(values: Sequence[float], calls: Calls) -> Fit | None:
    """Return the product of powers of extents, times a number, with these values."""
    numbers = np.asarray(values, dtype=np.float64)
    if not (numbers * numbers[0] > 0).all():
        return None
    found = _solved(np.log(np.abs(numbers)), [np.log(np.asarray(sizes, dtype=np.float64)) for sizes in calls.values()])
    if found is None:
        return None
    factor = _plain(math.copysign(math.exp(found[-1]), values[0]))
    given = {name: power for name, power in zip(calls, found, strict=False) if power}
    root = next((root for root in _ROOTS if all((power / root).is_integer() for power in given.values())), None)
    if root is None or not given:
        return None
    (text, over), powers = _ROOTS[root], {name: power / root for name, power in given.items()}
    above, below = ([name for name, power in powers.items() for _ in range(int(sign * power))] for sign in (1, -1))
    if above and below:
        node = _product(above) / _product(below)
    else:
        node, text = _product(above or below), text if above else over
    return text if factor == 1 else f"{factor!r} * {text}" if " / " not in text else f"{factor!r} / a", node


def _product(names: Sequence[str]) -> Node:
    """Return the product of extents, some of which may occur several times."""
    found = _extent(dict.fromkeys(names))
    for at, name in enumerate(names):
        if name in names[:at]:
            found = found * _extent([name])
    return found


def _extent(names: Iterable[str]) -> Node:
    return Node("extent", label=" ".join(names))


def _inner(inner: Callable[[float], float], values: Sequence[float]) -> Sequence[float] | None:
    """Return the argument of a function that has these values; None if there is none."""
    try:
        return [inner(value) for value in values]
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def _are_close(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return bool(np.abs(one - other).max() <= _CLOSE * np.abs(other).max())
