"""What each element of an output may be, as plain numbers that a program without an oracle can compare with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fuzz.base.case import Case
from fuzz.judge.judge import Judgement
from fuzz.judge.values import problem_of
from oracles.enclosure import ALLOWED, REQUIRED
from oracles.numerics import Numerics
from oracles.precise import Bounds
from oracles.truth import Truth

_MOST = 2048
"""elements of one output that are compared, the failing ones first: each is calculated with high precision."""

MAGNITUDE, NEGATIVE, MAY_BE_NAN, MUST_BE_NAN, MAY_BE_ZERO, MAY_BE_NONFINITE = 1, 2, 4, 8, 16, 32
"""bits of a rule: the interval is of magnitudes, and the sign must be this one; special values that conform."""


@dataclass(frozen=True)
class Allowed:
    """One element: its flat index in C order, the ends of what is allowed, and bits of special rules."""

    index: int
    low: float
    high: float
    rule: int


def expectations(case: Case, numerics: Numerics, judgement: Judgement | None) -> dict[str, list[Allowed]]:
    """By output, for as many elements as are worth the time; an element on which the oracle gives up is left out."""
    truth = Truth(problem_of(case))
    return {name: list(_allowed(truth, case, name, numerics, judgement)) for name in case.outputs}


def _allowed(truth: Truth, case: Case, name: str, numerics: Numerics, judgement: Judgement | None) -> Iterator[Allowed]:
    shape = case.outputs[name].layout.shape
    for flat in _chosen(case, name, judgement):
        place = truth.canonical_index(name, tuple(int(i) for i in np.unravel_index(flat, shape)))
        bounds = truth.bounds(numerics, name, place, case.structured)
        if bounds is not None:
            low, high = bounds.ends
            yield Allowed(flat, float(low), float(high), _rule(bounds))


def _chosen(case: Case, name: str, judgement: Judgement | None) -> list[int]:
    """Flat indices: failing elements, then the first ones."""
    size = case.outputs[name].layout.size
    check = judgement.worst if judgement is not None else None
    mask = check.mask if check is not None and check.output == name else None
    failing = [] if mask is None else np.flatnonzero(mask).tolist()
    return sorted(list(dict.fromkeys([*failing, *range(min(size, _MOST))]))[:_MOST])


def _rule(bounds: Bounds) -> int:
    sign = 0 if bounds.negative is None else MAGNITUDE | (NEGATIVE if bounds.negative else 0)
    nan = MAY_BE_NAN if bounds.nan == ALLOWED else MUST_BE_NAN if bounds.nan == REQUIRED else 0
    return sign | nan | (MAY_BE_ZERO if bounds.zero else 0) | (MAY_BE_NONFINITE if bounds.nonfinite else 0)
