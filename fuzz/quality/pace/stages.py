"""What a judged run costs, stage by stage, in the processor time of this process and of its workers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.draw import Draw, Part
from fuzz.base.kernel import Kernel
from fuzz.execute.pool import WorkerPool
from fuzz.generate.big import usual
from fuzz.generate.realise import realise
from fuzz.generate.search import Search, batches
from fuzz.generate.turn import BATCH
from fuzz.laws.registry import declared, with_twins
from fuzz.quality.pace import STAGES, Cost
from fuzz.uses.search.examiner import Examiner
from oracles.declared import AXIS
from oracles.ops import OPS

_TICK = os.sysconf("SC_CLK_TCK")


def of_search(targets: Sequence[Target], seconds: float, seed: int, what: str) -> Cost:
    """The cases that a search makes for these targets, until so many seconds of processors are spent. One op after the
    other has an equal share."""
    by_op = dict.fromkeys(target.kernel.op for target in targets)
    with WorkerPool(targets) as pool:
        costs = []
        for op in by_op:
            of_op = [target for target in targets if target.kernel.op == op]
            kernels = tuple(dict.fromkeys(target.kernel for target in of_op))
            meter = _Meter(pool, of_op, declared(kernels))
            drawn = ([made.case for made in batch] for batch in batches(Search(op, seed, kernels)))
            costs.append(meter.cost(what, drawn, seconds / len(by_op)))
    return joined(costs, what)


def of_sizes(
    targets: Sequence[Target], sizes: Iterable[tuple[int, int]], seconds: float
) -> Iterator[tuple[tuple[int, int], Cost]]:
    """Plain cases of each size, rows and their length, until so many seconds of processors are spent on each. A size
    that no target takes is left out."""
    with WorkerPool(targets) as pool:
        for rows, n in sizes:
            cost = _Meter(pool, targets).cost(f"{rows} x {n}", _sized(targets[0].kernel, rows, n), seconds)
            if cost.runs:
                yield (rows, n), cost


def joined(costs: Sequence[Cost], what: str) -> Cost:
    """All of them together."""
    return Cost(
        what, sum(cost.runs for cost in costs), *(sum(getattr(cost, stage) for cost in costs) for stage in STAGES)
    )


def _sized(kernel: Kernel, rows: int, n: int) -> Iterator[list[Case]]:
    """Batches of plain cases of one size: the required tensors, contiguous, normal values."""
    op = OPS[kernel.op]
    dtype = "f32" if "f32" in kernel.able.dtypes else kernel.able.dtypes[0]
    parts = [Part(each.name, dtype, recipe="normal") for each in op.inputs if not each.optional]
    parts += [Part(each.name, dtype) for each in op.outputs if not each.optional]
    numbers = {each.name: usual(each) for each in op.parameters if each.neutral is None}
    number = 0
    while True:
        draws = (Draw(op.name, n, (rows,), {**numbers, AXIS: 1}, number + i, tuple(parts)) for i in range(BATCH))
        yield [realise(draw) for draw in draws]
        number += BATCH


class _Meter:
    """Executes and judges batches, and notes what each stage took."""

    def __init__(self, pool: WorkerPool, targets: Sequence[Target], laws: Sequence[str] = ()) -> None:
        self._pool, self._laws = pool, laws
        self._examiner = Examiner(pool, targets)
        self._others = [name for name in pool.pids if name not in self._examiner.targets]

    def cost(self, what: str, drawn: Iterator[list[Case]], seconds: float) -> Cost:
        """What batches take, until so many seconds of processors are spent."""
        spent, runs = dict.fromkeys(STAGES, 0.0), 0
        workers, last = _workers_cpu(self._pool), time.process_time()

        def note(stage: str) -> None:
            nonlocal last
            now = time.process_time()
            spent[stage], last = spent[stage] + now - last, now

        while sum(spent.values()) < seconds:
            entries = with_twins(next(drawn), self._laws)
            note("drawing")
            batch = self._examiner.submit(entries, self._others)
            batch.outcomes()
            note("transport")
            runs += sum(map(len, self._examiner.examined([entries], batch)[0].judgements))
            note("judging")
            spent["executing"] = _workers_cpu(self._pool) - workers
        return Cost(what, runs, **spent)


def _workers_cpu(pool: WorkerPool) -> float:
    """Seconds of processors that workers used, and children of theirs and of ours that have ended."""
    ended = os.times()
    return sum(map(_process_cpu, pool.pids.values())) + ended.children_user + ended.children_system


def _process_cpu(pid: int) -> float:
    """Its own, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / _TICK
