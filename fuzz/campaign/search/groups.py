"""The search of several ops one after another, and how targets are spread over processes."""

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
"""For each of the slow targets' processes there are this many of the others. Slow targets have few turns."""
_PROCESSES_PER_WATCHED = 1
"""This ratio where tools watch some of them: a tool takes ten seconds to start, and one second for a case."""
_PROCESS_BYTES = 300 << 20
"""What one process of a search takes, in bytes. Measured: 180 MB, and more with large cases."""
_MOST_WITH_DEVICE = 2
"""The most processes of a search where each target on a GPU has a process of its own, or where free memory is unknown.
Each has half a gigabyte of the GPU's memory for its context alone, and a pack has dozens of kernels."""
_CONTEXT_BYTES = 1 << 30
"""The GPU memory of a process that several targets share: its context, and the tensors of one frame of cases, which
torch keeps."""
_WORKER_BYTES = (12 << 20, 200 << 20)
"""What a worker takes, in bytes: one of compiled code, and one of Python with torch, most of whose memory is shared."""
_SHARED_BYTES = 1 << 30
"""The main memory of a process that targets on a GPU share, in bytes."""


@dataclass
class EndsSoonAfter:
    """Ends a search a number of cases after the first finding that `found` reports: a failing run should end soon, and
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
    """Always skips `others`, and skips slow targets except for one batch in `slow_every`. It counts batches, not time,
    so that the same seed or commit gives the same cases to the same targets."""

    others: frozenset[str]
    slow: frozenset[str]
    slow_every: int
    first: int = 1
    """Slow targets get this many batches to begin with."""
    batches: int = 0

    def __call__(self) -> frozenset[str]:
        number, self.batches = self.batches, self.batches + 1
        skips_slow = number >= self.first and number % max(self.slow_every, 1)
        return self.others | self.slow if skips_slow else self.others


def slow_targets_of(targets: Collection[Target]) -> frozenset[str]:
    """Return the targets so slow that others would wait for them; empty where all are slow."""
    slow = frozenset(target.id for target in targets if target.slow)
    return slow if len(slow) < len(targets) else frozenset()


def groups_of(targets: Sequence[Target], processes: int) -> tuple[tuple[str, ...], ...]:
    """Return the targets by the processes that run them: the quick ones, then groups of slow ones, each with at most
    one tool so that its targets can share workers. Slow groups take turns of their own, as many as they have time for,
    and so hold up nobody."""
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
    """Return how many processes a search of these targets has: one per processor unless `jobs` says it, but no more
    than have a turn to take or fit into memory, also a GPU's."""
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
    """Return the bytes that one process may take with its workers."""
    own = sum(_WORKER_BYTES[target.costly] for target in targets if not target.shares)
    return _PROCESS_BYTES + own + _SHARED_BYTES * any(target.shares for target in targets)


def free_memory() -> int:
    """Return the bytes of memory that are available, as the system tells them."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kib = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)
    return kib << 10


def search_ops(runner: Runner, seed: int) -> None:
    """Search every op that something runs, one after another. Each gets a share of what is left of the limits, in
    proportion to how many different capabilities its kernels have, since a turn is for one of them. On a GPU, unless
    cases are counted, all ops are searched at once: some compile while others run."""
    limits, statuses = runner.limits, runner.pool.statuses
    kernels = [t.kernel for t in runner.targets if not isinstance(statuses.get(t.id), NotRun)]
    turns = {op: len(capabilities_of(kernels, op)) for op in sorted({kernel.op for kernel in kernels})}
    runner.wait_for_workers()
    if limits.max_cases is None and any(target.shares for target in runner.targets if target.kernel.op in turns):
        runner.run_beside(list(turns), seed)
        for op in turns:
            _note_late(runner, op)
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
            _note_late(runner, op)
    runner.tally.note_waiting()


def _note_late(runner: Runner, op: str) -> None:
    """Say why slow targets of the op had no turn in the time available."""
    slow = slow_targets_of([target for target in runner.targets if target.kernel.op == op])
    for line in map(runner.tally.targets.__getitem__, slow):
        if not (line.judged or line.not_run or line.not_run_reason):
            line.not_run_reason = LATE
