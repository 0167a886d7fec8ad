"""What a judged run costs, stage by stage, in the processor time of this process and of its workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.draw import Draw, Part
from fuzz.base.kernel import Kernel
from fuzz.base.op import OPS
from fuzz.execute.pool import WorkerPool
from fuzz.generate.realise import realise
from fuzz.generate.search import BATCH, StopSearch, search
from fuzz.judge.judge import EntryJudge
from fuzz.laws.registry import declared, with_twins
from fuzz.quality.pace import Cost
from fuzz.quality.pace.plain import EPS

_TICK = os.sysconf("SC_CLK_TCK")

Consume = Callable[[list[Case]], None]


def of_search(targets: Sequence[Target], seconds: float, seed: int, what: str) -> Cost:
    """The cases that a search makes for these targets, until so many seconds of processors are spent. One op after the
    other has an equal share."""
    by_op = dict.fromkeys(target.kernel.op for target in targets)
    with WorkerPool(targets) as pool:
        costs = []
        for op in by_op:
            of_op = [target for target in targets if target.kernel.op == op]
            kernels = tuple(dict.fromkeys(target.kernel for target in of_op))
            meter = _Meter(pool, of_op, seconds / len(by_op), declared(kernels))
            _drawn(op, seed, kernels, meter.take)
            costs.append(meter.cost(what))
    return joined(costs, what)


def of_sizes(targets: Sequence[Target], sizes: Iterable[tuple[int, int]], seconds: float) -> Iterator[Cost]:
    """Plain cases of each size, rows and their length, until so many seconds of processors are spent on each."""
    with WorkerPool(targets) as pool:
        for rows, n in sizes:
            meter = _Meter(pool, targets, seconds)
            with suppress(StopSearch):
                for batch in _sized(targets[0].kernel, rows, n):
                    meter.take(batch)
            yield meter.cost(f"{rows} x {n}")


def joined(costs: Sequence[Cost], what: str) -> Cost:
    """All of them together."""
    return Cost(
        what,
        sum(cost.runs for cost in costs),
        *(sum(getattr(cost, stage) for cost in costs) for stage in ("drawing", "transport", "executing", "judging")),
    )


def _drawn(op: str, seed: int, kernels: Sequence[Kernel], take: Consume) -> None:
    """Give batches of a search to `take` until it raises StopSearch."""
    search(op, seed, take, kernels)


def _sized(kernel: Kernel, rows: int, n: int) -> Iterator[list[Case]]:
    """Batches of plain cases of one size: the required tensors, contiguous, normal values."""
    op = OPS[kernel.op]
    dtype = "f32" if "f32" in kernel.able.dtypes else kernel.able.dtypes[0]
    parts = [Part(each.name, dtype, recipe="normal") for each in op.inputs if not each.optional]
    parts += [Part(each.name, dtype) for each in op.outputs if not each.optional]
    number = 0
    while True:
        draws = (Draw(op.name, n, (rows,), {"eps": EPS, "axis": 1}, number + i, tuple(parts)) for i in range(BATCH))
        yield [realise(draw) for draw in draws]
        number += BATCH


@dataclass
class _Meter:
    """Executes and judges batches, and notes what each stage took; what passes between two batches is drawing."""

    pool: WorkerPool
    targets: Sequence[Target]
    seconds: float
    laws: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._by_id = {target.id: target for target in self.targets}
        self._spent = {"drawing": 0.0, "transport": 0.0, "judging": 0.0}
        self._runs = 0
        self._workers = _workers_cpu(self.pool)
        self._last = time.process_time()

    def take(self, cases: list[Case]) -> None:
        """One batch. Raises StopSearch once the time is used up."""
        entries = with_twins(cases, self.laws)
        self._note("drawing")
        outcomes = self.pool.submit([entry.case for entry in entries], self._others).outcomes()
        self._note("transport")
        before: EntryJudge | None = None
        for entry, ran in zip(entries, outcomes, strict=True):
            before = EntryJudge(entry, ran, before, [self._by_id[name].numerics for name in ran])
            for name in ran:
                before.judge(self._by_id[name])
                self._runs += 1
        self._note("judging")
        if sum(self._spent.values()) + self._executing >= self.seconds:
            raise StopSearch

    def cost(self, what: str) -> Cost:
        """What all batches took."""
        return Cost(what, self._runs, executing=self._executing, **self._spent)

    @property
    def _others(self) -> list[str]:
        """What else the pool has."""
        return [name for name in self.pool.pids if name not in self._by_id]

    @property
    def _executing(self) -> float:
        return max(0.0, _workers_cpu(self.pool) - self._workers)

    def _note(self, stage: str) -> None:
        now = time.process_time()
        self._spent[stage] += now - self._last
        self._last = now


def _workers_cpu(pool: WorkerPool) -> float:
    """Seconds of processors that workers used, and children of theirs and of ours that have ended."""
    ended = os.times()
    return sum(map(_process_cpu, pool.pids.values())) + ended.children_user + ended.children_system


def _process_cpu(pid: int) -> float:
    """Its own, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / _TICK
