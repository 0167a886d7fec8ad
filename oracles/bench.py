"""The fast tier against the precise tier, side by side, and the share of elements that the fast one leaves open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.numerics import Numerics
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.simulation import rms_norm
from oracles.summation import Lanes
from oracles.truth import Truth

LENGTHS = (64, 1024, 4096, 32768)


@dataclass(frozen=True)
class Timing:
    """Seconds to judge every element of one row of `n`."""

    n: int
    dtype: str
    fast: float
    """for a contract seen for the first time, inputs included."""
    again: float
    """for another kernel with the same contract."""
    precise: float
    escalated: float
    """share of elements that the fast tier left open."""

    @property
    def ratio(self) -> float:
        """How many times faster the fast tier is."""
        return self.precise / self.fast


def bench(lengths: Sequence[int] = LENGTHS, dtype: str = "f32", seed: int = 1) -> Iterator[Timing]:
    """Time both tiers on a normal row of each length, judged in full by each."""
    numerics = Numerics(summation=Lanes(16, 4, "scalar"))
    rng = np.random.default_rng(seed)
    for n in lengths:
        x = rng.standard_normal((1, n)).astype(np.float32)
        problem = Problem("rms_norm", {"eps": 2.0**-17}, {"x": x}, {"y": dtype}, key=f"bench {n}")
        y, _ = rms_norm(x, numerics, problem.eps, dtype)
        truth = Truth(problem)
        fast = min(_seconds(partial(afresh, problem, numerics, y)) for _ in range(7))
        again = min(_seconds(partial(truth.check, numerics, {"y": y})) for _ in range(7))
        escalated = sum(check.escalated for check in truth.check(numerics, {"y": y})) / n
        fresh = Truth(problem)
        precise = _seconds(partial(precisely, fresh, numerics, y))
        yield Timing(n, dtype, fast, again, precise, escalated)


def afresh(problem: Problem, numerics: Numerics, y: NDArray[Any]) -> bool:
    """Judge `y` in the fast tier, with nothing computed beforehand."""
    return Truth(problem).check(numerics, {"y": y})[0].result == "pass"


def precisely(truth: Truth, numerics: Numerics, y: NDArray[Any]) -> bool:
    """Judge every element of `y` (one row) in the precise tier."""
    verdicts = []
    for index in np.ndindex(y.shape):
        bounds = truth.bounds(numerics, "y", index, truth.problem.structured)
        verdicts.append(bounds is not None and conforms(bounds, float(y[index])))
    return all(verdicts)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
