"""Properties that values may have: one table says how each is recognised, and how drawn values are given it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.stream import Reals
from oracles.operand import Kept

Numbers = tuple[float, ...]
_LEAST = 3
"""The smallest side of a matrix that counts. A smaller matrix looks triangular or symmetric by chance."""
_MANY = 8
"""The smallest length of a row that counts. Fewer elements are in order by chance; eight are once in 40,000."""
_ENOUGH = 16
"""The smallest number of elements that counts. Fewer elements have few distinct values, or one sign, by chance."""
_FEW = 3
"""The largest number of distinct values that count as kinds, such as the 0 and 1 of a mask."""


@dataclass(frozen=True)
class Property:
    """A property that values may have in all examples."""

    words: str
    """The property in words, with `{}` for its numbers."""
    holds: Callable[[Reals, Numbers, float], bool]
    """Returns whether values have the property, given the values, its numbers, and the unit roundoff of the values."""
    made: Callable[[Reals, Numbers], Reals]
    """Returns values that have the property, made from any values and the property's numbers."""
    shows: Callable[[Reals], bool]
    """Returns whether values are large and varied enough that they do not have the property by chance."""
    numbers: Callable[[Reals], Numbers] = lambda values: ()
    """Returns the numbers that are part of the property, given the values of all examples."""
    group: str = ""
    """A name for properties that exclude each other: of a group, values have at most one, the first that holds."""
    is_square: bool = False
    """Whether only matrices can have the property, and are square if it holds."""
    is_seen: bool = True
    """Whether the property is looked for in examples. Others follow from what a reference does."""
    is_range: bool = False
    """Whether the property concerns magnitude or sign. References hardly ever promise that, so the property is reported
    but not imposed on drawn values."""


def _symmetric(values: Reals) -> Reals:
    n, found = min(values.shape[-2:]), values.copy()
    block = values[..., :n, :n]
    found[..., :n, :n] = np.where(np.tri(n, dtype=bool), block, np.swapaxes(block, -1, -2))
    return found


def _definite(values: Reals) -> Reals:
    """Return symmetric matrices whose diagonal is larger than all else in a row, so that they are definite."""
    found = _symmetric(np.nan_to_num(values, posinf=1.0, neginf=-1.0))
    sizes = np.abs(found).sum(-1)
    return np.where(
        np.eye(found.shape[-1], dtype=bool), (1.25 * np.where(sizes > 0.0, sizes, 1.0))[..., None, :], found
    )


def _dominant(values: Reals) -> Reals:
    """Return matrices whose diagonal is larger than all else in a row, so that each half is a factor of a definite
    matrix that is far from singular. The halves differ."""
    found = np.nan_to_num(values, posinf=1.0, neginf=-1.0)
    sizes = np.maximum(np.abs(found).sum(-1), np.abs(found).sum(-2))
    large = 1.25 * np.where(sizes > 0.0, sizes, 1.0)
    return np.where(np.eye(found.shape[-1], dtype=bool), large[..., None, :], found)


def _is_dominant(values: Reals, numbers: Numbers, u: float) -> bool:
    return bool((np.diagonal(values, axis1=-2, axis2=-1) > 0.0).all())


def _is_definite(values: Reals, numbers: Numbers, u: float) -> bool:
    is_regular = _is_regular(values, numbers, u) and np.array_equal(_symmetric(values), values)
    return is_regular and bool((np.linalg.eigvalsh(values) > 0.0).all())


def _regular(values: Reals) -> Reals:
    """Return matrices that are not singular: one element of each row and column is large, not all on the diagonal."""
    found = np.nan_to_num(values, posinf=1.0, neginf=-1.0)
    n, largest = min(found.shape[-2:]), np.abs(found).max((-1, -2), keepdims=True)
    places = np.arange(n)[::-1] if n % 2 else np.roll(np.arange(n), 1)
    found[..., np.arange(n), places] = (2.0 * n * np.where(largest > 0.0, largest, 1.0))[..., 0]
    return found


def _is_regular(values: Reals, numbers: Numbers, u: float) -> bool:
    """Whether no singular value is so small that f32 may lose it."""
    if values.ndim < 2 or values.shape[-1] != values.shape[-2] or not np.isfinite(values).all():
        return False
    parts, least = np.linalg.svd(values, compute_uv=False), min(64.0 * u * values.shape[-1], 0.05)
    return bool((parts[..., -1] > least * parts[..., 0]).all())


def _with_pivots(values: Reals) -> Reals:
    found = np.nan_to_num(values, posinf=1.0, neginf=-1.0)
    return np.where((np.eye(*found.shape[-2:]) == 1.0) & (found == 0.0), 1.0, found)


def _hot(values: Reals) -> Reals:
    places = np.argmax(np.nan_to_num(values), -1)
    return np.where(np.arange(values.shape[-1]) == places[..., None], 1.0, 0.0)


def _shares(values: Reals) -> Reals:
    sizes = np.abs(np.where(np.isfinite(values), values, 1.0))
    sizes = sizes / np.maximum(sizes.max(-1, keepdims=True), np.finfo(np.float64).tiny)
    sizes = np.where(sizes.sum(-1, keepdims=True) > 0.0, sizes, 1.0)
    found: Reals = sizes / sizes.sum(-1, keepdims=True)
    return found


def _among(values: Reals, numbers: Numbers) -> Reals:
    """Return one of two or three numbers for each value. With two, the sign of the value chooses; with three, whether
    it is below -1/2, between, or above 1/2."""
    limits = [0.0] if len(numbers) == 2 else [-0.5, 0.5]
    return np.take(numbers, np.searchsorted(limits, np.nan_to_num(values), side="right"))


def _whole(values: Reals, numbers: Numbers) -> Reals:
    low, high = numbers
    return low + np.mod(np.floor(np.where(np.isfinite(values), values, 0.0)), high - low + 1.0)


def _within_one(values: Reals) -> Reals:
    sizes = np.abs(np.where(np.isfinite(values), values, 0.5))
    return np.where(sizes > 1.0, sizes - np.floor(sizes), sizes)


def _is(made: Callable[[Reals], Reals]) -> Callable[[Reals, Numbers, float], bool]:
    return lambda values, numbers, u: np.array_equal(made(values), values, equal_nan=True)


def _by(made: Callable[[Reals], Reals]) -> Callable[[Reals, Numbers], Reals]:
    return lambda values, numbers: made(values)


def _is_matrix(values: Reals) -> bool:
    return values.ndim > 1 and min(values.shape[-2:]) >= _LEAST


def _matrix(words: str, made: Callable[[Reals], Reals], shows: Callable[[Reals], bool]) -> Property:
    return Property(
        words, lambda values, numbers, u: values.ndim > 1 and np.array_equal(made(values), values, equal_nan=True),
        _by(made),
        lambda values: _is_matrix(values) and shows(values), group="order", is_square=True,
    )  # fmt: skip


def _varies(values: Reals) -> bool:
    return bool(np.unique(values[np.triu(np.ones(values.shape[-2:], bool), 1) & np.ones_like(values, bool)]).size > 1)


def _in_order(values: Reals) -> bool:
    return values.shape[-1] >= _MANY and bool((values[..., :1] != values[..., -1:]).any())


def _is_many(values: Reals) -> bool:
    return values.size >= _ENOUGH and np.unique(values).size > _FEW


def _ones(upper: int) -> Callable[[Reals], Reals]:
    """Return a function that makes 1 on one side of the diagonal and 0 on the other."""

    def made(values: Reals) -> Reals:
        below = np.tri(*values.shape[-2:])
        return np.broadcast_to(1.0 - below if upper else below, values.shape)

    return made


PROPERTIES: Mapping[str, Property] = {
    "causal": _matrix("1 up to the diagonal and 0 above", _ones(0), lambda values: True),
    "future": _matrix("0 up to the diagonal and 1 above", _ones(1), lambda values: True),
    "diagonal": _matrix(
        "diagonal", lambda values: np.where(np.eye(*values.shape[-2:]) == 1.0, values, 0.0),
        lambda values: bool(values.any()),
    ),
    "lower": _matrix("lower triangular", np.tril, lambda values: bool(np.tril(values, -1).any())),
    "upper": _matrix("upper triangular", np.triu, lambda values: bool(np.triu(values, 1).any())),
    "definite": Property(
        "symmetric and positive definite", _is_definite, _by(_definite),
        lambda values: _is_matrix(values) and _varies(values), group="order", is_square=True,
    ),
    "symmetric": Property(
        "symmetric",
        lambda values, numbers, u: values.ndim > 1 and values.shape[-1] == values.shape[-2]
        and np.array_equal(_symmetric(values), values, equal_nan=True),
        _by(_symmetric), lambda values: _is_matrix(values) and _varies(values), group="order", is_square=True,
    ),
    "regular": Property("not singular", _is_regular, _by(_regular), _is_matrix, is_square=True, is_seen=False),
    "pivots": Property(
        "without 0 on the diagonal", _is(_with_pivots), _by(_with_pivots), _is_matrix, is_square=True, is_seen=False,
    ),
    "dominant": Property(
        "with a large diagonal", _is_dominant, _by(_dominant), _is_matrix, is_square=True, is_seen=False,
    ),
    "one_hot": Property(
        "one-hot along each row", _is(_hot), _by(_hot),
        lambda values: values.shape[-1] > 1 and values.size >= 4 * values.shape[-1], group="order",
    ),
    "shares": Property(
        "not negative, and adds up to 1 along each row",
        lambda values, numbers, u: bool((values >= 0).all() and (np.abs(values.sum(-1) - 1.0) <= 4.0 * u).all()),
        _by(_shares), lambda values: values.shape[-1] > 1 and values.size >= 2 * values.shape[-1], group="order",
    ),
    "ascending": Property(
        "in ascending order along each row", lambda values, numbers, u: not (np.diff(values) < 0).any(),
        _by(lambda values: np.sort(values, -1)), _in_order, group="order",
    ),
    "descending": Property(
        "in descending order along each row", lambda values, numbers, u: not (np.diff(values) > 0).any(),
        _by(lambda values: -np.sort(-values, -1)), _in_order, group="order",
    ),
    "among": Property(
        "{}", lambda values, numbers, u: bool(np.isin(values, numbers).all()), _among,
        lambda values: values.size >= _ENOUGH and 1 < np.unique(values).size <= _FEW,
        lambda values: tuple(np.unique(values).tolist()), group="numbers",
    ),
    "whole": Property(
        "whole numbers from {} to {}",
        lambda values, numbers, u: bool(((values == np.floor(values)) & (values >= numbers[0])
                                         & (values <= numbers[1])).all()),
        _whole, _is_many, lambda values: (float(values.min()), float(values.max())), group="numbers",
    ),
    "unit": Property(
        "from 0 to 1", lambda values, numbers, u: bool(((values >= 0) & (values <= 1)).all()), _by(_within_one),
        _is_many, group="numbers", is_range=True,
    ),
    "not_negative": Property(
        "never negative", lambda values, numbers, u: not (values < 0).any(), _by(np.abs),
        _is_many, group="numbers", is_range=True,
    ),
}  # fmt: skip
"""The properties that are looked for, the narrowest first. A new property needs only another row."""
_WITHOUT_NUMBERS = ("causal", "future", "one_hot", "shares")
"""Properties that already determine which numbers occur."""


def observed(samples: Sequence[NDArray[np.generic]], u: float) -> Kept:
    """Return the properties that a tensor's values have in all samples. `u` is the unit roundoff of the values."""
    wide = [np.asarray(each, dtype=np.float64) for each in samples]
    if not wide or any(not each.ndim or not each.size or not np.isfinite(each).all() for each in wide):
        return ()
    found, groups = dict[str, Numbers](), set[str]()
    every = np.concatenate([each.reshape(-1) for each in wide])
    flags = samples[0].dtype.kind in "biu"  # the dtype already determines the numbers
    for name, each in PROPERTIES.items():
        if (
            not each.is_seen
            or each.group in groups
            or (each.group == "numbers" and (flags or not {*_WITHOUT_NUMBERS}.isdisjoint(found)))
        ):
            continue
        numbers = each.numbers(every)
        if all(each.shows(one) and each.holds(one, numbers, u) for one in wide):
            found[name] = numbers
            groups.add(each.group)
    return tuple(found.items())
