"""What a simulated kernel keeps up to date: a mean and squares of terms, or a maximum and a sum of exponentials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.elementary.functions import function
from oracles.simulated.roundings import Roundings

Part = tuple[F64, F64, int]
"""The mean of some terms and their sum of squared deviations, or the maximum and the sum of exponentials, and how many
they are."""


@dataclass(frozen=True)
class Joining:
    """How two parts become one."""

    rounding: Roundings
    dtype: Format
    exponentials: Format
    """The dtype of a step between two maxima, and of its exponential."""

    def moments(self, a: Part, b: Part) -> Part:
        """Return mean and squares of both, and how many terms they are of."""
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
        """Return the maximum and the sum of both."""
        most, sums = np.maximum(a[0], b[0]), []
        for each in (a, b):
            apart = self.rounding.result(each[0] - most, self.exponentials)
            step = np.where(np.isneginf(most), 0.0, apart)  # masked so far
            factor = np.where(step == 0, 1.0, self.rounding.function(function("exp"), step, self.exponentials))
            sums.append(self._round(each[1] * factor))
        return most, self._round(sums[0] + sums[1]), a[2] + b[2]

    def _round(self, values: F64) -> F64:
        return self.rounding.result(values, self.dtype)


def joined(terms: F64, second: float, lanes: int, join: Callable[[Part, Part], Part]) -> Part:
    """Return the part of all terms along the last axis, of which each alone has that second number: one after the
    other in each of some lanes, which are joined as a tree."""
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
