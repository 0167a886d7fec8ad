"""Comparing outputs bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Output
from fuzz.base.dtypes import from_bits
from fuzz.laws.law import STRICT, Leeway, Outputs


@dataclass(frozen=True)
class Difference:
    """Where an output is not what a law asks for."""

    output: str
    index: tuple[int, ...]
    """of the first differing element of the twin."""
    expected: str
    got: str
    """value and bits."""
    count: int
    size: int

    def __str__(self) -> str:
        index = ", ".join(str(i) for i in self.index)
        return (
            f"{self.count} of {self.size} elements of {self.output} differ, first {self.output}[{index}] of the twin: "
            f"got {self.got}, expected {self.expected} from the case itself"
        )


def first_difference(
    outputs: Mapping[str, Output], expected: Outputs, got: Outputs, leeway: Leeway = STRICT
) -> Difference | None:
    """The first difference in what is expected, or None. A NaN equals any NaN: its payload and sign come from the
    hardware, not from the kernel. All else is compared bit for bit, within the leeway: without any, a zero does not
    equal a zero of the other sign."""
    for name, output in outputs.items():
        if name not in expected or expected[name] == got[name]:
            continue
        wanted = from_bits(expected[name], output.dtype, output.layout.shape)
        found = from_bits(got[name], output.dtype, output.layout.shape)
        differing = (_words(wanted) != _words(found)) & ~(_is_nan(wanted) & _is_nan(found))
        if leeway.zeros:
            differing &= ~(_is_zero(wanted) & _is_zero(found))
        if name in leeway.elements:
            differing &= ~leeway.elements[name].reshape(differing.shape)
        count = int(differing.sum())
        if count:
            index = tuple(int(i) for i in np.unravel_index(int(differing.argmax()), differing.shape))
            return Difference(name, index, _shown(wanted, index), _shown(found, index), count, math.prod(found.shape))
    return None


def _words(values: NDArray[np.generic]) -> NDArray[np.unsignedinteger]:
    return values.view(f"<u{values.dtype.itemsize}")


def _is_nan(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN, and no reason for a warning
        return np.isnan(values.astype(np.float64))


def _is_zero(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    words = _words(values)
    zeros: NDArray[np.bool_] = words << words.dtype.type(1) == 0  # all but the sign
    return zeros


def _shown(values: NDArray[np.generic], index: tuple[int, ...]) -> str:
    """Such as '0.5 (0x3f000000)'."""
    digits = 2 * values.dtype.itemsize
    return f"{float(values[index])!r} (0x{int(_words(values)[index]):0{digits}x})"
