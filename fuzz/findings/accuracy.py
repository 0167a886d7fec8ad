"""err/budget by row length, and how far apart the two budgets are at that length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from fuzz.base.case import Case
from fuzz.judge.judge import Judgement
from oracles.budget import CONFIDENCE
from oracles.declared import AXIS
from oracles.dtypes import FORMATS, form
from oracles.formula.contract import WIDE, Contract, widest
from oracles.ops import OPS
from oracles.summation import Sequential, Summation

BINS_PER_OCTAVE = 4
_REST = 4.0
"""The roundings besides those of the sum, in units of the unit roundoff: mean, eps, root and multiplications."""


@dataclass(frozen=True)
class Point:
    """Where an accuracy was seen: a target, a dtype, and rows of about one length, judged by one of the budgets."""

    target: str
    dtype: str
    bin: int
    worst_case: bool


@dataclass(frozen=True)
class WorstRun:
    """The passing run of the worst err/budget at one point, and how many runs there were."""

    n: int
    ratio: float
    climb: float
    where: str
    runs: int = 1

    def joined(self, other: WorstRun) -> WorstRun:
        """The worse of the two; the runs of both."""
        worse = other if other.ratio > self.ratio else self
        return WorstRun(worse.n, worse.ratio, worse.climb, worse.where, self.runs + other.runs)


def whereabouts(case: Case) -> str:
    """A case in a few words, e.g. '3x1041 spike'."""
    tensor = next(iter(case.inputs.values()))
    shape = "x".join(str(extent) for extent in tensor.layout.shape)
    return f"{shape} {case.origin.recipe}"


def accuracy_of(case: Case, judgement: Judgement, contract: Contract) -> tuple[Point, WorstRun] | None:
    """Where a passing run belongs; None where no value was compared, or there is no row."""
    main = case.inputs[OPS[case.op].main]
    n = main.layout.shape[int(case.params[AXIS])] if main.layout.shape else 1
    if judgement.worst is None or n == 0:
        return None
    worst_case = case.structured or coarse(contract, main.dtype)
    point = Point(judgement.target, main.dtype, math.floor(BINS_PER_OCTAVE * math.log2(n)), worst_case)
    return point, WorstRun(n, judgement.ratio, climb(contract, n, main.dtype), whereabouts(case))


@lru_cache(maxsize=4096)
def coarse(contract: Contract, dtype: str) -> bool:
    """Inputs of fewer bits than the accumulator, which always get the worst case."""
    return form(dtype).precision < form(_sum(contract, dtype)[0]).precision


def _sum(contract: Contract, dtype: str) -> tuple[str, Summation]:
    """The dtype and the order of the sums along rows; of several kinds of them the first that is named."""
    compute = widest([dtype]) if contract.compute == WIDE else contract.compute
    return compute if compute in FORMATS else dtype, next(iter(contract.sums.values()), Sequential())


@lru_cache(maxsize=65536)
def climb(contract: Contract, n: int, dtype: str) -> float:
    """The worst-case budget over the sqrt(n) budget of a row's reciprocal root; at least 1.

    For the chart only: it scales results judged by one budget onto the axis of the other.
    """
    accumulate, summation = _sum(contract, dtype)
    u = form(accumulate).u
    chain = summation.chain(n) + 1
    worst = math.expm1(min(chain * math.log1p(u), 700.0))
    likely = min(CONFIDENCE * math.sqrt(chain) * u + chain * u * u, worst)
    return (worst / 2 + _REST * u) / (likely / 2 + _REST * u)
