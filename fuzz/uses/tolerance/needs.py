"""How far correct kernels stray from the exact result, rounded, and what a tolerance makes of that: from the oracle's
conformance sets of ordinary rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from fuzz.uses.tolerance.others import NUMPY, TORCH, Tolerance
from fuzz.uses.tolerance.plain import plain, usual
from oracles.doubledouble import F64, head
from oracles.enclosure import Enclosure
from oracles.op import Extents, Op
from oracles.rounding import half_gap, round_to
from oracles.summation import Any, Summation
from oracles.truth import Truth

ROWS, SEED = 32, 1
DTYPES = tuple(TORCH)
OURS = "correct kernels"


@dataclass(frozen=True)
class Ruler:
    """What one tolerance does to an output."""

    whose: str
    absolute: float
    relative: float
    lets_through: float
    """An error of this share of the value passes, in half of the elements."""
    refuses: int
    """The elements of which it refuses some value that a correct kernel may return."""


@dataclass(frozen=True)
class Needs:
    """What the elements of one output need. Shares are of the exact value, rounded to the dtype."""

    output: str
    dtype: str
    elements: int
    typical: float
    """The relative tolerance that half of the elements need, and `worst` the one that all do."""
    worst: float
    floor: float
    """The smallest error that is seen where each element has its own limit, in half of the elements."""
    rulers: tuple[Ruler, ...]
    """The tightest pair of one absolute and one relative tolerance first, then those of others."""


_IN_ANY_ORDER = Any()


def needs(
    op: Op, dtype: str, n: int, rows: int = ROWS, seed: int = SEED, order: Summation = _IN_ANY_ORDER,
    extents: Extents = MappingProxyType({}),
) -> Iterator[Needs]:  # fmt: skip
    """Yield what each output of numbers needs, on normal rows of n elements, and of extents that are not the plain
    ones. The kernels calculate in float32, or in float64 of float64, and add in any order unless one is given."""
    truth = Truth(plain(op, dtype, rows, n, seed, extents=extents), confirms=False)
    for name, enclosure in truth.enclosures(usual(op, dtype, order), structured=False).items():
        judged = None if enclosure.places else _judged(enclosure)
        if judged is not None:
            yield _of_output(name, truth.problem.outputs[name], enclosure, judged)


@dataclass(frozen=True, eq=False)
class _Judged:
    """The elements of an output whose expected values are numbers other than 0."""

    expected: F64
    """The exact value, rounded."""
    stray: F64
    """How far from that a correct kernel may be here."""
    needed: F64
    """The same, but at least as far as the next number where a kernel rounds on its way: with other inputs the exact
    value lies near the middle between two."""


def _judged(enclosure: Enclosure) -> _Judged | None:
    with np.errstate(all="ignore"):
        expected = round_to(head(enclosure.centre), enclosure.form)
        low, high = enclosure.outer
        stray = np.maximum(high - expected, expected - low)
        ulp = 2 * half_gap(expected, enclosure.form, expected > 0)
        needed = np.where(enclosure.below + enclosure.above > 0, np.maximum(stray, ulp), stray)
    there = np.isfinite(needed) & (expected != 0)
    if enclosure.unjudged is not None:
        there &= ~enclosure.unjudged
    return _Judged(expected[there], stray[there], needed[there]) if there.any() else None


def _of_output(name: str, dtype: str, enclosure: Enclosure, judged: _Judged) -> Needs:
    share = judged.needed / np.abs(judged.expected)
    others = (TORCH.get(dtype), NUMPY)
    tolerances = (tightest(judged.expected, judged.needed), *(each for each in others if each is not None))
    return Needs(
        name, dtype, share.size, float(np.median(share)), float(share.max()), float(np.median(enclosure.shares())),
        tuple(_ruler(each, judged) for each in tolerances),
    )  # fmt: skip


def tightest(expected: F64, needed: F64) -> Tolerance:
    """A pair that refuses no correct kernel: what the larger half of the values needs is relative, and what the smaller
    ones need beyond that is absolute. Both are rounded up to two digits."""
    size = np.abs(expected)
    relative = _up(float((needed / size)[size >= np.median(size)].max()))
    return Tolerance(OURS, _up(float(np.maximum(needed - relative * size, 0.0).max())), relative)


def _up(value: float) -> float:
    """The smallest number of two digits that is no less."""
    if value == 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step) * step:.1e}")


def _ruler(tolerance: Tolerance, judged: _Judged) -> Ruler:
    allowed = tolerance.allowed(judged.expected)
    through = float(np.median(allowed / np.abs(judged.expected)))
    refuses = int(np.count_nonzero(judged.stray > allowed))
    return Ruler(tolerance.whose, tolerance.absolute, tolerance.relative, through, refuses)
