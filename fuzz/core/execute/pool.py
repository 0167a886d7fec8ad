"""The worker pool: one process for each target, and one thread that talks to all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.target import Attestation, NotRun, Target
from fuzz.core.base.case import Case
from fuzz.core.base.dispatch import Dispatch
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.batch import Batch, TargetBatch, Watch, patient
from fuzz.core.execute.lane import Lane
from fuzz.core.execute.loop import Loop
from fuzz.core.execute.sharing import Sharing
from fuzz.core.execute.worker import Encoded
from fuzz.core.transport.frames import encode_case

_UNBOUNDED_LIMIT_S = 900.0
_LOOK_S = 0.25
"""The seconds between two looks at waiting targets: often enough for a live line, too rare to cost anything. Chosen."""
FRAME_BYTES = 4 << 20
"""The approximate size of a frame of cases in bytes, so that no worker holds a whole batch of large tensors."""


class WorkerPool:
    """Builds, starts and feeds the workers of `targets`; a context manager. Entering it raises CacheError. A target
    that cannot run here, whose kernel cannot be built or loaded, or whose worker is not what the target requests, has a
    NotRun in `statuses` and no outcomes.

    `limit` is in seconds per case, by default each target's own. With `second_run` every case runs twice, with
    different output poisons, not only if poison was left. `jobs` is the number of targets at work at a time, by default
    one per processor. `cache` is the folder of built workers, by default `cache_directory()`. With `bounded`, slow
    targets get only small cases. A target gets no more cases after `most_hangs` of them hung. `longest` limits the
    seconds of any case, except if kernels are compiled now and then. Without `at_once`, workers that share processes
    start with their first case. Workers append the keys of programs that they compile to the file `programs`.
    """

    threads = 1  # workers tell OpenMP, linear algebra and torch to use no more

    def __init__(
        self,
        targets: Sequence[Target],
        *,
        limit: float | None = None,
        second_run: bool = False,
        jobs: int | None = None,
        cache: Path | None = None,
        bounded: bool = True,
        most_hangs: int | None = None,
        longest: float | None = None,
        at_once: bool = True,
        programs: str = "",
    ) -> None:
        self.watch: Watch = patient
        self.statuses: dict[str, Attestation | NotRun] = {}
        self._targets = tuple(targets)
        self._second_run = second_run
        self._bounded = bounded
        self._builder = Builder(cache, jobs, programs)
        self._loop = Loop(jobs or os.cpu_count() or 1)
        self._submitted = 0
        self._looked = 0.0
        self._at_once, sharing = at_once, Sharing()
        self._lanes = [
            Lane(target, self._limit(target, limit, longest), self._loop, most_hangs, sharing)
            for target in self._targets
            if target.unavailable() is None
        ]

    def _limit(self, target: Target, limit: float | None, longest: float | None) -> float:
        """Return the time limit of a case in seconds. If slow targets get cases of any size, they need much time."""
        if limit is None:
            limit = target.case_limit if self._bounded or target.size_limit is None else _UNBOUNDED_LIMIT_S
        bounds = longest is not None and not (target.batched or target.kernel.compiles)
        return min(limit, longest) if longest is not None and bounds else limit

    @property
    def limits(self) -> Mapping[str, float]:
        return {lane.target.id: lane.limit for lane in self._lanes}

    @property
    def restarts(self) -> Mapping[str, int]:
        """The number of workers that were replaced although their kernel was not at fault, by target, without zeros."""
        counted = {lane.target.id: lane.restarts for lane in self._lanes}
        return {target: count for target, count in counted.items() if count > 0}

    @property
    def notices(self) -> Sequence[str]:
        """One line for each damaged file in the cache of built workers that was built again."""
        return self._builder.notices

    @property
    def busy_s(self) -> Mapping[str, float]:
        """The seconds for which each target's worker has been at work."""
        return {lane.target.id: lane.busy_s for lane in self._lanes}

    @property
    def pids(self) -> Mapping[str, int]:
        """The process id of each live worker, by target."""
        found = {lane.target.id: lane.pid for lane in self._lanes}
        return {target: pid for target, pid in found.items() if pid is not None}

    def __enter__(self) -> WorkerPool:
        # Starts take one thread each, because they wait for compilers and imports. After that there is only one thread.
        starters = ThreadPoolExecutor(max(1, len(self._lanes)))
        try:
            starting = {
                lane.target.id: starters.submit(lane.start, self._builder, at_once=self._at_once)
                for lane in self._lanes
            }
            for target in self._targets:
                reason = target.unavailable()
                self.statuses[target.id] = (
                    awaited(starting[target.id], self._look) if reason is None else NotRun(reason)
                )
        except BaseException:
            self.stop()
            starters.shutdown(cancel_futures=True)
            self._close()
            raise
        starters.shutdown()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def submit(self, cases: Sequence[Case], without: Collection[str] = (), for_all: Collection[int] = ()) -> Batch:
        """Dispatch each case to every live target that accepts it. Targets in `without` get only the cases with indices
        in `for_all`. Return at once; see `Batch.outcomes`. To limit memory, wait for a batch before submitting many."""
        batch = Batch(tuple(cases), advance=self._advance)
        self._looked = time.monotonic()
        self._submitted += 1
        encoded = [Encoded(case, encode_case(case, self._second_run), []) for case in cases]
        accepted: dict[Dispatch, tuple[list[int], list[list[Encoded]]]] = {}
        for lane in self._lanes:
            status = self.statuses[lane.target.id]
            rests = lane.target.id in without
            if isinstance(status, NotRun) or (rests and not for_all):
                continue
            dispatch = lane.target.dispatch(bounded=self._bounded)
            if dispatch not in accepted:
                indices = [index for index, case in enumerate(cases) if dispatch.accepts(case)]
                accepted[dispatch] = indices, _split([encoded[index] for index in indices])
            indices, frames = accepted[dispatch]
            if status.wrong_dtypes or rests:
                kept = [index for index in indices if not rests or index in for_all]
                kept = self._without_faults(batch, lane.target.id, status, kept)
                indices, frames = kept, _split([encoded[index] for index in kept])
            if indices:
                part = TargetBatch(lane.target.id, indices)
                batch.parts.append(part)
                lane.submit(self._submitted, part, frames)
        return batch

    def stop(self) -> None:
        """Kill every worker and compiler without waiting for them. Unfinished cases become NOT_RUN."""
        self._builder.stop()
        for lane in self._lanes:
            lane.stop()

    def renew(self) -> None:
        """Give every target a new process, so that the next case is its first call."""
        while self._loop.advance(_LOOK_S):
            self._look_around()
        for lane in self._lanes:
            lane.renew()

    def _advance(self) -> None:
        self._loop.advance(_LOOK_S)
        self._look_around()

    def _look_around(self) -> None:
        """Call `_look`, unless the last look was a moment ago."""
        if time.monotonic() - self._looked >= _LOOK_S:
            self._look()
            self._looked = time.monotonic()

    def _look(self) -> None:
        """Show the targets at work to `watch`, and break off those that it returns, with everything submitted to them
        so far, since a kernel that hangs has more cases on the way."""
        waits = {lane: wait for lane in self._lanes if (wait := lane.wait()) is not None}
        unwanted = self.watch(list(waits.values()))
        for lane, wait in waits.items():
            if wait.target in unwanted:
                lane.cut(self._submitted, wait.broken_off)

    def _without_faults(self, batch: Batch, target: str, status: Attestation, indices: Sequence[int]) -> list[int]:
        """Return the indices of cases without a dtype that this worker gets wrong. The others become NOT_RUN."""
        wrong: dict[int, Outcome] = {}
        for dtype, why in status.wrong_dtypes.items():
            concerned = [index for index in indices if dtype in batch.cases[index].dtypes]
            wrong |= dict.fromkeys(concerned, Outcome(target, Status.NOT_RUN, detail=why))
        if wrong:
            batch.parts.append(TargetBatch(target, list(wrong), list(wrong.values())))
        return [index for index in indices if index not in wrong]

    def _close(self) -> None:
        self.stop()
        for lane in self._lanes:
            lane.close()


_T = TypeVar("_T")


def awaited(future: Future[_T], look: Callable[[], None]) -> _T:
    """Return the future's result. Until it is there, call `look` several times a second."""
    while True:
        try:
            return future.result(_LOOK_S)
        except TimeoutError:
            if future.done():
                return future.result()
            look()


def _split(cases: Sequence[Encoded]) -> list[list[Encoded]]:
    """Return the cases in frames of about FRAME_BYTES."""
    frames: list[list[Encoded]] = []
    size = FRAME_BYTES
    for case in cases:
        if size + len(case.data) > FRAME_BYTES:
            frames.append([])
            size = 0
        frames[-1].append(case)
        size += len(case.data)
    return frames
