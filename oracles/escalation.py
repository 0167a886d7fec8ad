"""The loop in which the precise tier decides about elements that the fast tier leaves open, with a limit of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from oracles.doubledouble import F64
from oracles.enclosure import ABOVE_ONE, Mask, OutputComparison
from oracles.formula.exact.deadline import LateError, deadline
from oracles.precise import Bounds, conforms

MOST_S = 60.0
"""The limit in processor seconds for the elements of one output that only the precise tier can decide; elements beyond
it stay undecided. A large output may have only such elements, each of which takes milliseconds to seconds. The number
was chosen, not measured."""


class PreciseProgress(NamedTuple):
    """The progress of the precise tier in one output: elements `done`, their number `of`, processor `seconds` so
    far."""

    op: str
    output: str
    done: int
    of: int
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """Return the progress in words, such as 'y of softmax in many digits, 120 of 5,000 elements in 12 s of 60
        s'."""
        done = f"{self.done:,} of {self.of:,} elements in {self.seconds:.0f} s of {MOST_S:g} s"
        return f"{self.output} of {self.op} in many digits, {done}"


def _unwatched(step: PreciseProgress) -> None:
    """Ignore progress."""


watch: Callable[[PreciseProgress], None] = _unwatched
"""The function that is called before each element that the precise tier decides, and then once a second."""


def _never() -> bool:
    """Return False, so that nothing stops the precise tier."""
    return False


over: Callable[[], bool] = _never
"""A function that the precise tier calls while it works, such as before `watch`. Once it returns True, the tier
stops."""


@contextmanager
def until(ended: Callable[[], bool]) -> Iterator[None]:
    """Stop the precise tier, inside the block, once `ended` returns True."""
    global over
    before, over = over, ended
    try:
        yield
    finally:
        over = before


def break_off() -> None:
    """Raise LateError if `over` returns True."""
    if over():
        raise LateError


def _tell(step: PreciseProgress, began: float) -> None:
    break_off()
    watch(step._replace(seconds=time.process_time() - began))


def narrowed(
    comparison: OutputComparison, got: F64, alone: Callable[[int], tuple[slice, Mask, Mask]], began: float
) -> OutputComparison:
    """Return the comparison with fewer unsure elements: the precise tier's own forms decide some of them, row by row.
    `alone` returns, for a row, a part of the output that contains the row, and the masks of its elements that certainly
    conform and certainly fail. Rows are left unsure once the time since it `began` is over."""
    failing, unsure, ratio = comparison.failing.copy(), comparison.unsure.copy(), comparison.ratio.copy()
    known = 0
    for row in map(int, np.flatnonzero(unsure.reshape(len(unsure), -1).any(axis=1))):
        if row < known or time.process_time() - began >= MOST_S or over():
            continue
        part, conform, fail = alone(row)
        known = len(unsure) if part.stop is None else part.stop
        ratio[part] = np.where(unsure[part] & fail, np.maximum(ratio[part], ABOVE_ONE), ratio[part])
        ratio[part] = np.where(unsure[part] & conform & ~np.isfinite(got[part]), 0.0, ratio[part])
        failing[part] |= unsure[part] & fail
        unsure[part] &= ~(conform | fail)
    return replace(comparison, failing=failing, unsure=unsure, ratio=ratio)


def settled(
    comparison: OutputComparison,
    got: F64,
    bounds: Callable[[tuple[int, ...]], Bounds | None],
    start: PreciseProgress,
    began: float | None = None,
) -> tuple[Mask, F64, int, int]:
    """Return the mask of failing elements, their err/budget, the number of elements about which the precise tier gave
    up, and the number for which no time was left since the comparison `began`. `bounds` returns the conformance set of
    an element, None if the precise tier gives up. `watch` is called with updated copies of `start`."""
    failing, ratio, gave_up = comparison.failing.copy(), comparison.ratio.copy(), 0
    places, began = np.argwhere(comparison.unsure), time.process_time() if began is None else began
    for done, place in enumerate(places):
        spent = time.process_time() - began
        if spent >= MOST_S:
            return failing, ratio, gave_up, len(places) - done
        tell = partial(_tell, start._replace(done=done), began)
        index = tuple(int(i) for i in place)
        try:
            tell()
            with deadline(began + MOST_S, tell):
                found = bounds(index)
        except LateError:
            return failing, ratio, gave_up, len(places) - done
        if found is None:
            gave_up += 1
        elif not conforms(found, float(got[index])):
            failing[index] = True
            ratio[index] = max(ratio[index], ABOVE_ONE)
        elif not np.isfinite(got[index]):
            ratio[index] = 0.0  # a NaN or infinity that conforms has no error
    return failing, ratio, gave_up, 0
