"""The search of several ops in turn, and which batches slow targets are given meanwhile."""

from __future__ import annotations

import time

from fuzz.base.attestation import NotRun
from fuzz.execute.reach import Reserved
from fuzz.uses.search.resting import Resting, slow_ones
from fuzz.uses.search.runner import Runner
from fuzz.uses.search.warmup import warm_up

_SLOW_EVERY = 24
"""slow targets are given one batch of a search in so many, where quicker ones would have to wait for them."""
_FOR_ALL = 3
"""batches of each op that every target is given first: some kernels take few cases."""


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
        slow = slow_ones(running)
        runner.resting = Resting(frozenset(), slow, _SLOW_EVERY, _FOR_ALL)
        slow_targets, quick = ([t for t in running if (t.id in slow) == wanted] for wanted in (True, False))
        runner.reserved = Reserved(slow_targets, quick, statuses)
        runner.limits = limits.less(time.monotonic() - began, runner.tally.cases)
        runner.run(op, seed, share=1 / to_come)
