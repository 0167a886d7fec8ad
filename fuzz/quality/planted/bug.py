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
"""What becomes of an output, row by row, where some rows are struck: its values, and which of them are written."""


@dataclass(frozen=True)
class Condition:
    """What must be so for a bug to strike."""

    kind: Kind
    words: str
    """As an expert would say it."""
    holds: Callable[[PlantedCall], bool | np.bool_ | Rows]
    """Whether the condition holds, for a call or for each of its rows."""


ANY = Capabilities(dtypes=("f32", "f16", "bf16"), strides="any")
"""What kernels with planted bugs accept where the bug does not say otherwise."""


@dataclass(frozen=True)
class Bug:
    """What is wrong with one kernel."""

    name: str
    op: str
    source: str
    """The documented bugs, by their numbers in the lists of bugs, that this one is modelled on, and what they were."""
    conditions: tuple[Condition, ...]
    """It strikes the rows in which all of these hold, of tensors that have elements."""
    effect: Effect
    able: Capabilities = ANY
    output: str = ""
    """The output that is wrong; by default the op's first."""

    @property
    def rule(self) -> str:
        """When it fails, in plain words."""
        return " and ".join(each.words for each in self.conditions)

    def struck(self, call: PlantedCall) -> Rows:
        """Which rows are wrong."""
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
    """One element of a row is NaN; where it ought to be that, it is 0."""
    return partial(_changed, at=at, change=_to_nan)


def far(at: int) -> Effect:
    """One element of a row is at least 1 and half its own size off. Gradients that cancel may hide that: no effect for
    them."""
    return partial(_changed, at=at, change=_to_far)


def zero() -> Effect:
    """The whole row is 0: for rows that cannot be."""
    return partial(_changed, at=slice(None), change=np.zeros_like)


def raises(words: str) -> Effect:
    """The call fails."""
    return partial(_raised, words=words)


WHOLE = 1 << 62
"""The last so many elements of a row are all of them."""
