"""Choosing targets, starting their workers, and reporting targets that did not run."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fuzz.campaign.search.executor import Crew
from fuzz.campaign.search.runner import MOST_HANGS, groups_of, processes_for
from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.adapters.toolchain import Host
from fuzz.core.base.errors import UsageError
from fuzz.core.base.files import unwritable
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.selection import SelectionError, globs, keyword, matches_any
from fuzz.core.base.text import counted
from fuzz.core.execute.batch import Pool, Wait, patient
from fuzz.findings.tally import Tally, TargetTally
from fuzz.report.totals import not_run_lines

if TYPE_CHECKING:
    from fuzz.campaign.search.process_executor import ProcessExecutor
    from fuzz.core.execute.pool import WorkerPool

_SLOW_S = 5.0
"""Seconds of starting after which a target is named in the status line. Chosen."""


def select_targets(
    kernels: Sequence[Kernel],
    op: str = "*",
    patterns: Sequence[str] = (),
    expression: str | None = None,
    others: Sequence[Host] = (),
    *,
    sanitize: bool = False,
) -> tuple[Target, ...]:
    """Return the targets that the options ask for, also those that only other machines have; with `sanitize`, also
    those where a sanitizer watches a kernel on a GPU. Raises SelectionError if there are none, and UsageError if there
    is no sanitizer or no kernel to watch."""
    wanted = globs(patterns)
    matches_keyword = keyword(expression) if expression else lambda name: True
    ops = [each.strip() for each in op.split(",")]
    for each in ops:
        if not any(matches_any(kernel.op, [each]) for kernel in kernels):
            raise SelectionError(f"no kernel of an op {each!r}; see: kernelfuzz list ops")
    of_op = [kernel for kernel in kernels if matches_any(kernel.op, ops)]

    def is_wanted(name: str) -> bool:
        return (not wanted or matches_any(name, wanted)) and matches_keyword(name)

    here = expand(of_op)
    known = {target.id for target in here}
    there = {target.id: target for host in others for target in expand(of_op, host) if not target.emulated}
    every = (*here, *(target for name, target in there.items() if name not in known))
    # A target that is asked for is also run under sanitizers.
    watched = _watched(every) if sanitize else []
    chosen = (
        *(target for target in every if is_wanted(target.id)),
        *(each for target, each in watched if is_wanted(target.id) or is_wanted(each.id)),
    )
    if not chosen:
        asked = [*(f"--target {pattern}" for pattern in patterns), *([f"-k {expression!r}"] if expression else [])]
        raise SelectionError(f"no target matches {' and '.join(asked)}; see: kernelfuzz list targets")
    if sanitize:
        _check_sanitizers(chosen)
    return chosen


def _watched(targets: Sequence[Target]) -> list[tuple[Target, Target]]:
    from fuzz.core.adapters.cuda import sanitized

    return [(target, each) for target in targets for each in sanitized(target)]


def _check_sanitizers(targets: Sequence[Target]) -> None:
    from fuzz.core.adapters.cuda import MISSING, TOOLS, program_of

    if not any(target.sanitizer for target in targets):
        raise UsageError(
            "--sanitize: it watches kernels on a GPU, and none is chosen; add --target 'triton@cuda,torch@cuda'"
        )
    if program_of(next(iter(TOOLS))) is None:
        raise UsageError(f"--sanitize: {MISSING}")


@contextmanager
def started(
    targets: Sequence[Target],
    jobs: int,
    console: Console,
    case_limit: float | None = None,
    *,
    bounded: bool = True,
    longest: float | None = None,
    reasons: bool = True,
) -> Iterator[WorkerPool]:
    """Yield a pool whose workers were built, started and attested. With `reasons`, targets that did not start are
    reported at once, with the remedy; a search reports them at its end. Without `bounded`, slow targets run cases of
    any size."""
    from fuzz.core.execute.pool import WorkerPool

    with ExitStack() as stack:
        what = f"Building and starting {counted(len(targets), 'target')} ..."
        with console.status(what) as status:
            pool = WorkerPool(
                targets, jobs=jobs or None, limit=case_limit, bounded=bounded, most_hangs=MOST_HANGS,
                longest=longest,
            )  # fmt: skip
            pool.watch = partial(_name_slowest, lambda line: status.update(f"{what} {line}"))
            stack.enter_context(pool)
            pool.watch = patient
        for line in (*pool.notices, *(not_run_lines(not_running(pool)) if reasons else ())):
            console.print(line, style="yellow")
        yield pool


def executor_of(
    targets: Sequence[Target], scope: SearchScope, jobs: int, max_cases: int | None, case_limit: float | None,
    *, longest: float | None = None,
) -> ProcessExecutor:  # fmt: skip
    """Return the processes for a search of these targets: one per processor unless `jobs` gives the number."""
    from fuzz.campaign.search.process_executor import ProcessExecutor
    from fuzz.core.adapters.cuda import visible_devices

    count = processes_for(targets, jobs, max_cases) if targets else 0
    groups = groups_of(targets, count)
    compiled = any(target.specialised and target.unavailable() is None for target in targets)
    programs = _empty_file() if compiled else None
    make_pool = pools_of(targets, case_limit, longest, str(programs or ""))
    sizes, devices = (count, *(1 for _ in groups[1:])), visible_devices() if any(t.shares for t in targets) else ()
    return ProcessExecutor(targets, replace(scope, groups=groups), sizes, make_pool, devices, programs)


def pools_of(
    targets: Sequence[Target], case_limit: float | None, longest: float | None, programs: str = ""
) -> Callable[[Sequence[Target]], WorkerPool]:
    """Return a function that makes a pool for a process of a search. Builds that the pools share start at once."""
    from fuzz.core.adapters.build import Builder
    from fuzz.core.execute.pool import WorkerPool

    builder = Builder()
    for target in targets:
        with suppress(OSError):  # starting a worker will report it
            target.adapter.share(target, builder)

    def make_pool(mine: Sequence[Target]) -> WorkerPool:
        return WorkerPool(
            mine, jobs=1, limit=case_limit, most_hangs=MOST_HANGS, longest=longest, at_once=False,
            programs=programs,
        )  # fmt: skip

    return make_pool


def _empty_file() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="kernelfuzz-programs-")
    os.close(descriptor)
    return Path(name)


def _name_slowest(say: Callable[[str], None], waits: Sequence[Wait]) -> Collection[str]:
    """Name the target that has been starting for longest, once that is worth saying. Nothing stops waiting for it."""
    slowest = max(waits, key=lambda wait: wait.seconds, default=None)
    if slowest is not None and slowest.seconds >= _SLOW_S:
        say(f"waiting for {slowest.target}: {slowest.words}")
    return ()


def runnable(targets: Sequence[Target]) -> list[Target]:
    """Return the targets that can run on this machine."""
    return [target for target in targets if target.unavailable() is None]


def not_running(pool: WorkerPool) -> dict[str, str]:
    """Return the reason for each target without a worker."""
    return {name: status.reason for name, status in pool.statuses.items() if isinstance(status, NotRun)}


def is_broken(pool: WorkerPool, target: str) -> bool:
    """Whether the target has no worker because of a fault of its kernel."""
    status = pool.statuses[target]
    return isinstance(status, NotRun) and bool(status.broken)


def note_not_running(tally: Tally, targets: Sequence[Target], pool: Pool) -> None:
    """Add a line to the tally for each target, with the reason if it has no worker."""
    for target in targets:
        line = tally.targets.setdefault(target.id, TargetTally(target.id, target.kernel.name))
        status = pool.statuses.get(target.id)
        if isinstance(status, NotRun):
            line.not_run_reason, line.broken = status.reason, status.broken


def unmatched(required: Sequence[str], targets: Sequence[Target]) -> list[str]:
    """Return a line for each required pattern that matches no target, which is known before anything runs."""
    return [
        f"required target {pattern}: no such target; see: kernelfuzz list targets"
        for pattern in globs(required)
        if not any(matches_any(target.id, [pattern]) for target in targets)
    ]


def missing_targets(tally: Tally, required: Sequence[str]) -> list[str]:
    """Return a line for each target that matches a required pattern and judged nothing."""
    return [
        f"required target {target.target} did not run: {target.not_run_reason or 'no case fits it'}"
        for pattern in globs(required)
        for target in tally.targets.values()
        if target.judged == 0 and matches_any(target.target, [pattern])
    ]


def restarted(pool: WorkerPool, executor: Crew | None) -> list[str]:
    """Return lines about processes that were killed from outside, and about targets that some process could not run."""
    restarts = Counter(pool.restarts) + Counter(executor.restarts if executor is not None else {})
    lines = [
        f"{name}: its worker was killed from outside or hung {counted(count, 'time')} and was restarted; "
        "its cases were run again"
        for name, count in restarts.items()
    ]
    if executor is None:
        return lines
    if executor.deaths:
        what = "a process of the search" if executor.deaths == 1 else f"{executor.deaths} processes of the search"
        lines.append(f"{what} ended from outside and was started again: nothing that was reported is lost")
    lines += [f"given up, as every process ended in it: {turn}" for turn in executor.given_up]
    missing = {name: reason for name, reason in executor.missing.items() if name not in not_running(pool)}
    return [*lines, *not_run_lines(missing)]


def writable(folder: Path) -> Path:
    """Return `folder`, after checking before a long run that findings can be written to it. Raises UsageError."""
    obstacle = unwritable(folder)
    if obstacle is not None:
        raise UsageError(f"--output {folder}: {obstacle} cannot be written")
    return folder
