"""The search of several ops in turn, and which targets are given the next batch meanwhile.

Each schedule is a function that the runner asks before a batch: the targets it names are left out of that batch.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from fuzz.adapters.target import NotRun, Target
from fuzz.base.case import Case
from fuzz.base.kernel import Kernel
from fuzz.execute.pool import Batch, Pool
from fuzz.execute.reach import Reserved
from fuzz.findings.tally import Tally
from fuzz.generate.plan import plan
from fuzz.generate.realise import realise
from fuzz.generate.sketch import Sketch, fitting_n
from fuzz.uses.search.runner import Runner

_SLOW_EVERY = 24
"""Slow targets are given one batch of a search in this many, where quicker ones would have to wait for them."""
_FOR_ALL = 3
"""Every target is given this many batches of each op first: some kernels take few cases."""
_HEAD_START_S = 2.0
"""Every target may do this many seconds of work, however short the night is so far. The number is chosen, not
measured."""


@dataclass
class EndsSoonAfter:
    """Ends a search so many cases after the first finding of which `found` tells: what is red should be red soon, and
    until then a smaller case may be found."""

    found: Callable[[Tally], object]
    cases: int
    last: float = math.inf
    """The number of cases at which it ends."""

    def __call__(self, tally: Tally) -> bool:
        if self.last == math.inf and self.found(tally):
            self.last = tally.cases + self.cases
        return tally.cases >= self.last


@dataclass
class CountedSchedule:
    """Skips `others` always, and slow targets but for one batch in `slow_every`.

    Batches are counted, not timed, so that the same seed or commit gives the same cases to the same targets.
    """

    others: frozenset[str]
    slow: frozenset[str]
    slow_every: int
    first: int = 1
    """Slow targets are given this many batches to begin with."""
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
    """It returns the seconds that each target has been at work."""
    jobs: int = 0
    """This many targets run at a time; 0 means one per processor."""
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
        if target.kernel.slow:
            others = [name for name in pool.statuses if name != target.id]
            sent.append(pool.submit(_small_cases(target.kernel), without=others))
    return sent


def _small_cases(kernel: Kernel) -> list[Case]:
    capability = kernel.capability
    sketch = Sketch(capability, fitting_n(capability, 2), 2, 2, 1, odd=False, eps=1e-5, recipe="normal", seed=1)
    return [realise(plan(sketch, {"x dtype": dtype})) for dtype in capability.able.dtypes]


def search_ops(runner: Runner, seed: int) -> None:
    """Search every op of which something runs in turn, each with the same share of what those before it left of the
    limits."""
    limits, statuses = runner.limits, runner.pool.statuses
    here = [target for target in runner.targets if not isinstance(statuses.get(target.id), NotRun)]
    ops = sorted({target.kernel.op for target in here})
    began = time.monotonic()
    # The first op's search begins at once: what is slow there is waited for, and would only be given more.
    warm_up(runner.pool, [target for target in here if target.kernel.op in ops[1:]])
    for to_come, op in zip(range(len(ops), 0, -1), ops, strict=True):
        running = [target for target in here if target.kernel.op == op]
        slow = slow_targets_of(running)
        runner.skipped = CountedSchedule(frozenset(), slow, _SLOW_EVERY, _FOR_ALL)
        slow_targets, quick = ([t for t in running if (t.id in slow) == wanted] for wanted in (True, False))
        runner.for_all = Reserved(slow_targets, quick, statuses)
        runner.limits = limits.less(time.monotonic() - began, runner.tally.cases)
        runner.run(op, seed, share=1 / to_come)
