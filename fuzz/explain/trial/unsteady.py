"""Results that change: whether the same call sometimes gives another result, for example because threads race."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.batch import Pool
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.explanation import Unsteady
from oracles.dtypes import ITEMSIZE

CALLS = 32
"""The number of calls: a result that changes in one call of ten is missed once in thirty times."""


_PROCESSES, _BUSY_S = 4, 1.0
"""The number of processes that make the call at the same time on a GPU, and for how many seconds: blocks run in another
order if others compete with them. A race between blocks that lost 24 of 32 runs in a search never lost one with a
single process."""


def unsteady(pool: Pool, target: Target, case: Case, *, beside: bool = False) -> Unsteady | None:
    """Return how often and where the same call gives another result by chance. Return None if it never does, if the
    call does not return, or if new processes give the same sequence of results, since then state that the kernel keeps
    decides. With `beside`, if a single process always gets the same result, several processes make the call at the same
    time; this takes seconds on a GPU, and is for failures that do not repeat."""
    if len({_results(each, case) for each in _called(pool, target, case)}) > 1:
        found = [_called_afresh(pool, target, case) for _ in range(2)]
    elif beside:
        found = _called_together(pool, target, case)
    else:
        return None
    one_by_one = [[_results(each, case) for each in seen] for seen in found]
    if all(len(set(same)) == 1 for same in zip(*one_by_one, strict=False)):
        return None
    ran = [each for seen in found for each in seen]
    return next(filter(None, (_of_output(ran, name, case) for name in case.outputs)), None)


def _called_afresh(pool: Pool, target: Target, case: Case) -> list[Outcome]:
    pool.renew()
    return _called(pool, target, case)


def _called_together(beside: Pool, target: Target, case: Case) -> list[list[Outcome]]:
    """Return the outcomes of each of several new processes, in the order of calls; the pool `beside` provides the
    watch."""

    def called(pool: Pool) -> list[Outcome]:
        pool.watch = beside.watch
        found, until = _called(pool, target, case), time.monotonic() + _BUSY_S
        while time.monotonic() < until:
            found += _called(pool, target, case)
        return found

    with ExitStack() as stack:
        pools = [stack.enter_context(WorkerPool([target], bounded=False)) for _ in range(_PROCESSES)]
        threads = stack.enter_context(ThreadPoolExecutor(_PROCESSES))
        return list(threads.map(called, pools))


def _called(pool: Pool, target: Target, case: Case) -> list[Outcome]:
    seen = [found.get(target.id) for found in pool.submit([case] * CALLS).outcomes()]
    return [each for each in seen if each is not None and each.status is Status.RAN]


def _results(ran: Outcome, case: Case) -> tuple[bytes, ...]:
    return tuple(ran.outputs[name] for name in case.outputs)


def _of_output(ran: Sequence[Outcome], output: str, case: Case) -> Unsteady | None:
    results = Counter(each.outputs[output] for each in ran)
    if len(results) < 2:
        return None
    [(usual, often)] = results.most_common(1)
    tensor = case.outputs[output]
    elements = [np.frombuffer(each, np.uint8).reshape(-1, ITEMSIZE[tensor.dtype]) for each in (usual, *results)]
    differs = np.any([(each != elements[0]).any(axis=1) for each in elements[1:]], axis=0)
    first = np.unravel_index(int(differs.argmax()), tensor.layout.shape)
    return Unsteady(
        len(ran), len(ran) - often, len(results), output, tuple(map(int, first)), int(differs.sum()), differs.size
    )
