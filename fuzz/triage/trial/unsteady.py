"""Results that change: whether the same call gives another result now and then, as where threads race."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome, Status
from fuzz.execute.pool import Pool
from fuzz.triage.explanation import Unsteady
from oracles.dtypes import ITEMSIZE

CALLS = 32
"""The case is called so often: a result that is another one in one call of ten is missed once in thirty times."""


def unsteady(pool: Pool, target: Target, case: Case) -> Unsteady | None:
    """Return how often the same call, in one process, gives another result by chance, and where. None where it never
    does; where the call does not return; and where two new processes give the same results one after the other, as then
    a state decides that the kernel keeps."""
    if len({_results(each, case) for each in _called(pool, target, case)}) < 2:
        return None
    found = list[Sequence[Outcome]]()
    for _ in range(2):
        pool.renew()
        found.append(_called(pool, target, case))
    once, again = ([_results(each, case) for each in seen] for seen in found)
    if once == again:
        return None
    return next(filter(None, (_of_output([*found[0], *found[1]], name, case) for name in case.outputs)), None)


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
