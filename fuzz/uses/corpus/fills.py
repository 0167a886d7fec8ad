"""Fills: the published ways in which test suites make their data, with bits that no library version changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from fuzz.base.stream import Reals, Stream

Fill = Mapping[str, Any]
"""such as {"fill": "uniform", "low": -2.3, "high": -1.8}."""

STRUCTURED = frozenset({"constant", "integers", "values"})
"""fills whose rounding errors are not random, so that only the worst-case budget is sound."""


class FillError(ValueError):
    """A fill that cannot be made. The message names the member."""


def filled(fill: Fill, shape: tuple[int, ...], stream: Stream) -> NDArray[np.float64]:
    """Values of that shape, in C order, not yet rounded to a storage dtype."""
    name = str(fill.get("fill"))
    if name not in _FILLS:
        raise FillError(f"fill: {name!r} is not one of {', '.join(_FILLS)}")
    try:
        return _FILLS[name](fill, math.prod(shape), stream).reshape(shape)
    except KeyError as error:
        raise FillError(f"fill {name}: {error.args[0]} is missing") from error


def _normal(fill: Fill, count: int, stream: Stream) -> Reals:
    return stream.normal(count)


def _uniform(fill: Fill, count: int, stream: Stream) -> Reals:
    low, high = float(fill["low"]), float(fill["high"])
    return stream.uniform(count) * (high - low) + low


def _integers(fill: Fill, count: int, stream: Stream) -> Reals:
    return stream.integers(count, fill["low"], fill["high"]).astype(np.float64)


def _constant(fill: Fill, count: int, stream: Stream) -> Reals:
    return np.full(count, float(fill["value"]))


def _values(fill: Fill, count: int, stream: Stream) -> Reals:
    """The listed values, over and over."""
    return np.resize(np.array(fill["values"], dtype=np.float64), count)


def _wave(function: Callable[[Any], Any]) -> Callable[[Fill, int, Stream], Reals]:
    """amplitude * f(step * i). By mpmath: the C library's sine may differ in its last bit."""

    def wave(fill: Fill, count: int, stream: Stream) -> Reals:
        with mpmath.workprec(80):
            step, amplitude = mpmath.mpf(str(fill["step"])), mpmath.mpf(str(fill["amplitude"]))
            return np.array([float(amplitude * function(step * i)) for i in range(count)])

    return wave


_FILLS: Mapping[str, Callable[[Fill, int, Stream], Reals]] = {
    "normal": _normal,
    "uniform": _uniform,
    "integers": _integers,
    "constant": _constant,
    "values": _values,
    "sine": _wave(mpmath.sin),
    "cosine": _wave(mpmath.cos),
}
