"""Expressions for numbers that follow from extents. Powers of one extent, or of a product of two, are recognised from
two calls. Other expressions are fitted to enough calls to exclude others, and must agree with further calls."""

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
"""The largest difference of a fit, relative to the largest number, since fits are calculated in float64."""
_MOST_DENOMINATOR = 64
_MOST_PARTS, _FEW_PARTS = 16, 4
"""The largest divisor k of a whole part n // k, and the largest if two whole parts are added."""
_FORMS: Mapping[str, Callable[[float], float]] = {
    "a": lambda value: value, "1.0 / a": lambda value: 1.0 / value, "f.sqrt(a)": lambda value: value**2,
    "f.rsqrt(a)": lambda value: value**-2, "f.sqrt(f.sqrt(a))": lambda value: value**4,
    "f.rsqrt(f.sqrt(a))": lambda value: value**-4, "a * a": math.sqrt, "f.log(a)": math.exp,
}  # fmt: skip
"""Templates for a function of an expression `a`, each with its inverse."""
_ROOTS = {1.0: ("a", "1.0 / a"), 0.5: ("f.sqrt(a)", "f.rsqrt(a)"), 0.25: ("f.sqrt(f.sqrt(a))", "f.rsqrt(f.sqrt(a))")}
Calls = Mapping[str, Sequence[int]]
"""The extents in all calls, by dimension."""
Fit = tuple[str, Node]
"""A template in `a`, and the expression for which `a` stands."""


def powers(pair: tuple[float, float], dims: Iterable[Dim]) -> Iterator[Fit]:
    """Yield expressions with these values in two calls: powers of an extent n, of n - 1, or of a product of two
    extents, possibly minus 1."""
    free = [dim for dim in dims if dim.sizes[0] != dim.sizes[1]]
    for some in (*((dim,) for dim in free), *combinations(free, 2)):
        for less in (0, 1):
            for text, inner in _FORMS.items():
                made = _inner(inner, pair) if text != "f.log(a)" else None
                if made and all(math.isclose(a, size - less) for a, size in zip(made, extent(some), strict=True)):
                    yield text, plus(_extent(dim.name for dim in some), -float(less))


def fitted(values: Sequence[float], calls: Calls) -> Fit | None:
    """Return the expression with these values in all calls; None if there is none, or if there are too few calls."""
    if (found := _monomial(values, calls)) is not None:
        return found
    for text, inner in _FORMS.items():
        of = _inner(inner, values)
        if of is not None and (count := counted(of, calls, whole=text == "a")) is not None:
            return text, count
    return None


def counted(values: Sequence[float], calls: Calls, *, whole: bool = True) -> Node | None:
    """Return the sum with these values in all calls: of multiples of extents, of products of two extents, and, with
    `whole`, of whole parts such as n // 4. Return None if there is none, or if there are too few calls."""
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
    """Yield whole parts of extents, (n + j) // k for k up to `most` and j below k, with their values."""
    for by in range(2, most + 1):
        for node, column in linear:
            for above in range(by):
                whole = Node("function", (plus(node, float(above)) / float(by),), label="floor")
                yield whole, np.floor((column + above) / by)


def _times(one: _Term, other: _Term) -> _Term:
    return one[0] * other[0], one[1] * other[1]


def _solved(numbers: NDArray[np.float64], columns: Sequence[NDArray[np.float64]]) -> Sequence[float] | None:
    """Return the factors by which the columns and 1 add up to the numbers; None if none are certain."""
    table = np.stack([*columns, np.ones(len(numbers))], axis=1)
    if len(numbers) < table.shape[1] + _SPARE:
        return None
    scale = np.abs(table).max(axis=0)
    found, _, rank, _ = np.linalg.lstsq(table / scale, numbers, rcond=1e-12)
    factors = [_plain(float(each)) for each in found / scale]
    made = table @ np.asarray(factors)
    return factors if rank == table.shape[1] and np.abs(numbers - made).max() <= _CLOSE * np.abs(made).max() else None


def _plain(value: float) -> float:
    near = float(Fraction(value).limit_denominator(_MOST_DENOMINATOR))
    return near if abs(near - value) < _CLOSE * max(abs(near), 1.0) else value


def _sum(terms: Sequence[tuple[float, Node]], more: float) -> Node:
    """Return the sum of terms times factors, and of a number, with subtractions last."""
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
    """Return a number times powers of extents that has these values in all calls; None if there is no such product."""
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
    """Return the product of these extents, each as often as it is named."""
    found = _extent(dict.fromkeys(names))
    for at, name in enumerate(names):
        if name in names[:at]:
            found = found * _extent([name])
    return found


def _extent(names: Iterable[str]) -> Node:
    return Node("extent", label=" ".join(names))


def _inner(inner: Callable[[float], float], values: Sequence[float]) -> Sequence[float] | None:
    """Return the arguments for which a function has these values, by its inverse; None if there are none."""
    try:
        return [inner(value) for value in values]
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
