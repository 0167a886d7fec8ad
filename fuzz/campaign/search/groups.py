"""The search of several ops one after another, and how their targets are spread over processes."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.campaign.search.runner import Runner
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.kernel import capabilities_of
from fuzz.core.generate.turn import BATCH
from fuzz.findings.tally import LATE, Tally

_PROCESSES_PER_GROUP = 4
"""The number of processes of quick targets for each process of slow ones, which have few turns."""
_PROCESSES_PER_WATCHED = 1
"""The same ratio if sanitizers watch some of the slow targets: each takes ten seconds to start, and a second a case."""
_PROCESS_BYTES = 300 << 20
"""The bytes of memory of one process of a search. Measured: 180 MB, and more with large cases."""
_MOST_WITH_DEVICE = 2
"""The most processes of a search if each target on a GPU has a process of its own, or if the GPU's free memory is
unknown. Each takes half a gigabyte of the GPU's memory for its context alone, and a pack has dozens of kernels."""
_CONTEXT_BYTES = 1 << 30
"""The GPU memory of a process that several targets share: its context, and the tensors of one frame of cases, which
torch keeps."""
_WORKER_BYTES = (12 << 20, 200 << 20)
"""The bytes of a worker of compiled code, and of a Python worker with torch, most of whose memory is shared."""
_SHARED_BYTES = 1 << 30
"""The bytes of main memory of a process that targets on a GPU share."""


@dataclass
class EndsSoonAfter:
    """Ends a search `cases` cases after the first finding that `found` reports. A failing run should end soon, but
    until then a smaller case may be found."""

    found: Callable[[Tally], object]
    cases: int
    last: float = math.inf
    """The number of cases at which the search ends; inf before the first finding."""

    def __call__(self, tally: Tally) -> bool:
        if self.last == math.inf and self.found(tally):
            self.last = tally.cases + self.cases
        return tally.cases >= self.last


@dataclass
class CountedSchedule:
    """Skips slow targets except for one batch in `slow_every`. It counts batches, not time, so that the same seed gives
    the same cases to the same targets."""

    slow: frozenset[str]
    slow_every: int
    batches: int = 0

    def __call__(self) -> frozenset[str]:
        number, self.batches = self.batches, self.batches + 1
        return self.slow if number % self.slow_every else frozenset()


def slow_targets_of(targets: Collection[Target]) -> frozenset[str]:
    """Return the targets that are so slow that others would wait for them; an empty set if all are slow."""
    slow = frozenset(target.id for target in targets if target.slow)
    return slow if len(slow) < len(targets) else frozenset()


def groups_of(targets: Sequence[Target], processes: int) -> tuple[tuple[str, ...], ...]:
    """Return the targets by groups, each run by its own processes: the quick ones, then groups of slow ones. A slow
    group has at most one sanitizer, so that its targets can share workers. Slow groups take turns of their own, as many
    as they have time for, so that the quick ones never wait for them."""
    slow = slow_targets_of(targets)
    by_tool: dict[str, list[str]] = {}
    for target in targets:
        if target.id in slow:
            by_tool.setdefault(target.sanitizer, []).append(target.id)
    others_each = _PROCESSES_PER_WATCHED if any(by_tool) else _PROCESSES_PER_GROUP
    most = max(1, processes // others_each // max(1, len(by_tool)))
    striped = [tuple(names[k::most]) for names in by_tool.values() for k in range(min(most, len(names)))]
    return tuple(target.id for target in targets if target.id not in slow), *striped


def processes_for(targets: Sequence[Target], jobs: int, max_cases: int | None) -> int:
    """Return the number of processes for a search of these targets: one per processor unless `jobs` gives it, but no
    more than there are turns for, or than fit into the memory of the machine and of its GPUs."""
    wanted = jobs or len(os.sched_getaffinity(0))
    if max_cases is not None:
        wanted = min(wanted, math.ceil(max_cases / BATCH))
    here = [target for target in targets if target.unavailable() is None]
    on_device = [target for target in here if target.sanitizable or target.sanitizer]
    if on_device:
        from fuzz.core.adapters.cuda import free_device_memory

        free = free_device_memory() if all(target.shares for target in on_device) else ()
        tools = {target.sanitizer for target in on_device}
        contexts = min(2, len(tools)) if "" in tools else len(tools)  # each has one for watched targets beside it
        fit = sum(each // (contexts * _CONTEXT_BYTES) for each in free)
        wanted = min(wanted, fit if free else _MOST_WITH_DEVICE)
    return max(1, wanted if jobs else min(wanted, free_memory() // _memory_of(here)))


def _memory_of(targets: Sequence[Target]) -> int:
    """Return the bytes that one process and its workers may take."""
    own = sum(_WORKER_BYTES[target.costly] for target in targets if not target.shares)
    return _PROCESS_BYTES + own + _SHARED_BYTES * any(target.shares for target in targets)


def free_memory() -> int:
    """Return the bytes of available memory, as Linux reports them."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kib = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)
    return kib << 10


def search_ops(runner: Runner, seed: int) -> None:
    """Search every op that something runs. Where cases are counted, one op after another has a share of them in
    proportion to how many different capabilities its kernels have, since a turn is for one of them. Otherwise each has
    such a share of the time: see `OpShares`."""
    limits, statuses = runner.limits, runner.pool.statuses
    kernels = [t.kernel for t in runner.targets if not isinstance(statuses.get(t.id), NotRun)]
    turns = {op: len(capabilities_of(kernels, op)) for op in sorted({kernel.op for kernel in kernels})}
    runner.wait_for_workers()
    if limits.max_cases is None:
        runner.run_beside(list(turns), seed)
        for op in turns:
            note_late(runner.tally, runner.targets, op)
        runner.tally.note_waiting()
        return
    began, to_come = time.monotonic(), sum(turns.values())
    for op, own in turns.items():
        if runner.over():
            break
        runner.limits = limits.less(time.monotonic() - began, runner.tally.cases)
        runner.run(op, seed, share=own / to_come)
        to_come -= own
        if runner.limits.max_time is not None:
            note_late(runner.tally, runner.targets, op)
    runner.tally.note_waiting()


def note_late(tally: Tally, targets: Sequence[Target], op: str) -> None:
    """Note why slow targets of the op had no turn."""
    slow = slow_targets_of([target for target in targets if target.kernel.op == op])
    for line in map(tally.targets.__getitem__, slow):
        if not (line.judged or line.not_run or line.not_run_reason):
            line.not_run_reason = LATE
