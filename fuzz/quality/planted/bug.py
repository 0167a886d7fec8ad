"""A planted bug: where it strikes, and what is wrong there, which no values can hide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.capability import Capabilities
from fuzz.quality.planted.call import PlantedCall
from oracles.doubledouble import F64

Rows = NDArray[Any]
"""A truth value for each row."""
Kind = Literal["extent", "residue", "layout", "dtype", "value", "parameter"]
"""What a condition is about."""
Effect = Callable[[F64, Rows], tuple[F64, Rows]]
"""Takes the values of an output, row by row, and the struck rows; returns the values, and which are written."""


@dataclass(frozen=True)
class Condition:
    """What must hold for a bug to strike."""

    kind: Kind
    words: str
    """The condition as an expert would say it."""
    holds: Callable[[PlantedCall], bool | np.bool_ | Rows]
    """Whether the condition holds, for a call or for each of its rows."""


ANY = Capabilities(dtypes=("f32", "f16", "bf16"), strides="any")
"""What kernels with planted bugs accept, unless the bug says otherwise."""


@dataclass(frozen=True)
class Bug:
    """What is wrong with one kernel."""

    name: str
    op: str
    source: str
    """The documented bugs that this one is modelled on, by their numbers in the lists of bugs, and what they were."""
    conditions: tuple[Condition, ...]
    """It strikes the rows in which all of these hold, in tensors that have elements."""
    effect: Effect
    able: Capabilities = ANY
    output: str = ""
    """The output that is wrong; by default the op's first."""

    @property
    def rule(self) -> str:
        """When it fails, in plain words."""
        return " and ".join(each.words for each in self.conditions)

    def struck(self, call: PlantedCall) -> Rows:
        """Return which rows are wrong."""
        struck = np.full(call.rows, call.n > 0)
        if struck.any():
            with np.errstate(all="ignore"):
                for each in self.conditions:
                    struck = struck & each.holds(call)
        return struck


def _unwritten(values: F64, struck: Rows, count: int) -> tuple[F64, Rows]:
    written = np.ones(values.shape, dtype=bool)
    written[struck, -count:] = False
    return values, written


def _changed(values: F64, struck: Rows, at: int | slice, change: Callable[[F64], F64]) -> tuple[F64, Rows]:
    found = values.copy()
    found[struck, at] = change(found[struck, at])
    return found, np.ones(values.shape, dtype=bool)


def _raised(_: F64, struck: Rows, words: str) -> tuple[F64, Rows]:
    raise RuntimeError(f"{words} (row {int(np.argmax(struck))})")


def _to_nan(values: F64) -> F64:
    return np.where(np.isnan(values), 0.0, np.nan)


def _to_far(values: F64) -> F64:
    return np.where(np.isfinite(values), values + np.abs(values) + 1.0, 0.0)


def unwritten(last: int) -> Effect:
    """Return the effect that the `last` elements of a row are not written."""
    return partial(_unwritten, count=last)


def nan(at: int) -> Effect:
    """Return the effect that one element of a row is NaN; if it should be NaN, it is 0."""
    return partial(_changed, at=at, change=_to_nan)


def far(at: int) -> Effect:
    """Return the effect that one element of a row is off by at least 1 and half its own size. It is not used for
    gradients that cancel, which may hide it."""
    return partial(_changed, at=at, change=_to_far)


def zero() -> Effect:
    """Return the effect that the whole row is 0, for rows that cannot be 0."""
    return partial(_changed, at=slice(None), change=np.zeros_like)


def raises(words: str) -> Effect:
    """Return the effect that the call fails."""
    return partial(_raised, words=words)


WHOLE = 1 << 62
"""As a number of last elements of a row, all of them."""
