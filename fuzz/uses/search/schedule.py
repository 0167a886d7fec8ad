"""Which targets are given the next batch, and what slow kernels are sent before a search waits for them.

Each schedule is a function that the runner asks before a batch: the targets it names are left out of that batch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from fuzz.adapters.target import Target
from fuzz.base.capability import capability_of
from fuzz.base.case import Case
from fuzz.base.kernel import Kernel, PythonKernel
from fuzz.execute.pool import Batch, Pool
from fuzz.generate.plan import plan
from fuzz.generate.realise import realise
from fuzz.generate.sketch import Sketch, fitting_n

_HEAD_START_S = 2.0
"""seconds of work that every target may do, however short the night is so far. Chosen, not measured."""


@dataclass
class CountedSchedule:
    """Skips `others` always, and slow targets but for one batch in `slow_every`.

    Batches are counted, not timed, so that the same seed or commit gives the same cases to the same targets.
    """

    others: frozenset[str]
    slow: frozenset[str]
    slow_every: int
    first: int = 1
    """batches that slow targets are given to begin with."""
    batches: int = 0

    def __call__(self) -> frozenset[str]:
        number, self.batches = self.batches, self.batches + 1
        skips_slow = number >= self.first and number % max(self.slow_every, 1)
        return self.others | self.slow if skips_slow else self.others


def slow_targets_of(targets: Collection[Target]) -> frozenset[str]:
    """The slow targets, for which others would have to wait; none where there are no others."""
    slow = frozenset(target.id for target in targets if target.slow)
    return slow if len(slow) < len(targets) else frozenset()


@dataclass
class FairSchedule:
    """Skips targets that were at work for longer than their equal part of the processors' time: an interpreter takes a
    hundred times as long for a case as what is compiled.

    The part grows as time passes, so that no target is skipped for good.
    """

    busy_s: Callable[[], Mapping[str, float]]
    """seconds that each target has been at work."""
    jobs: int = 0
    """targets that run at a time; 0: one per processor."""
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def __call__(self) -> frozenset[str]:
        busy = self.busy_s()
        share = (self.clock() - self.began) * (self.jobs or os.cpu_count() or 1) / max(len(busy), 1)
        return frozenset(target for target, seconds in busy.items() if seconds > share + _HEAD_START_S)


def warm_up(pool: Pool, targets: Iterable[Target]) -> list[Batch]:
    """Send each of `targets` whose kernel is declared slow a small case of every dtype, and wait for nothing.

    torch.compile takes a quarter of a minute before its first result. Nobody need look at what comes of these cases:
    the search gives such a kernel others, which are judged.
    """
    sent = []
    for target in targets:
        if isinstance(target.kernel, PythonKernel) and target.kernel.slow:
            others = [name for name in pool.statuses if name != target.id]
            sent.append(pool.submit(_small_cases(target.kernel), without=others))
    return sent


def _small_cases(kernel: Kernel) -> list[Case]:
    capability = capability_of(kernel)
    sketch = Sketch(capability, fitting_n(capability, 2), 2, 2, 1, odd=False, eps=1e-5, recipe="normal", seed=1)
    return [realise(plan(sketch, {"x dtype": dtype})) for dtype in capability.able.dtypes]
