"""Results that change: whether the same call gives another result now and then, for example because threads race."""

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
"""How often the case is called: a result that changes in one call of ten is missed once in thirty times."""


_PROCESSES, _BUSY_S = 4, 1.0
"""On a GPU, the processes that call it at the same time, and the seconds for which they do: blocks run in other orders
if others wait. A race between blocks that lost 24 of 32 runs in a search was never lost by a process alone."""


def unsteady(pool: Pool, target: Target, case: Case, *, beside: bool = False) -> Unsteady | None:
    """Return how often the same call, in one process, gives another result by chance, and where. None if it never does;
    if the call does not return; and if new processes give the same results one after the other, since then state
    decides that the kernel keeps. With `beside` several processes call it at the same time, if one alone always gets
    the same: that takes seconds on a GPU, and is for failures that do not repeat."""
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
    """Return what each of several new processes returns, call by call; they are waited for like those of the pool
    `beside`."""

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
