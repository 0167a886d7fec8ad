"""The loop: one thread that takes the steps of many lanes, and decides which lanes work."""

from __future__ import annotations

import select
import time
from collections import deque
from dataclasses import dataclass, field

from fuzz.core.transport.steps import Pause, Steps


@dataclass(eq=False)
class Queue:
    """The jobs of one lane, in order."""

    busy_s: float = 0.0
    """The seconds for which the lane was at work."""
    jobs: deque[tuple[int, Steps[None]]] = field(default_factory=deque)
    """The number of each batch, with its steps."""
    pause: Pause | None = None
    """The pause of the first job, or None while it is not at work."""
    began: float = 0.0


class Loop:
    """Lets `slots` lanes work at a time, batch by batch. More workers than processors would only take time from each
    other, which would count against their cases. The slowest lanes of a batch go first, since the batch ends with its
    last lane. A thread for each lane would also work, but switching threads takes longer than many small batches."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: list[Queue] = []
        self._running: list[Queue] = []
        self._poll = select.poll()

    def submit(self, queue: Queue, number: int, steps: Steps[None]) -> None:
        """Add a job, whose steps raise nothing, and take the first steps of jobs that may start now."""
        queue.jobs.append((number, steps))
        if queue.pause is None and queue not in self._waiting:
            self._waiting.append(queue)
        self._begin()

    def advance(self, seconds: float) -> bool:
        """Take all steps that are ready, waiting at most `seconds` for the first. Return False if no job is left."""
        self._begin()
        if not self._running:
            return False
        now = time.monotonic()
        until = min(now + seconds, *(queue.pause.until for queue in self._running if queue.pause is not None))
        ready = {descriptor for descriptor, _ in self._poll.poll(max(0.0, until - now) * 1000)}
        now = time.monotonic()
        for queue in list(self._running):
            pause = queue.pause
            if pause is not None and (pause.descriptor in ready or now >= pause.until):
                self._poll.unregister(pause.descriptor)
                self._step(queue, pause.descriptor in ready)
        self._begin()
        return True

    def _begin(self) -> None:
        while self._free > 0 and self._waiting:
            queue = min(self._waiting, key=lambda each: (each.jobs[0][0], -each.busy_s))
            self._waiting.remove(queue)
            self._running.append(queue)
            self._free -= 1
            queue.began = time.monotonic()
            self._step(queue, None)

    def _step(self, queue: Queue, ready: bool | None) -> None:
        steps = queue.jobs[0][1]
        try:
            pause = next(steps) if ready is None else steps.send(ready)
        except StopIteration:
            self._end(queue)
        else:
            queue.pause = pause
            self._poll.register(pause.descriptor, pause.events)

    def _end(self, queue: Queue) -> None:
        queue.pause = None
        queue.busy_s += time.monotonic() - queue.began
        queue.jobs.popleft()
        self._running.remove(queue)
        self._free += 1
        if queue.jobs:
            self._waiting.append(queue)
