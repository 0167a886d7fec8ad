"""Running a replay: cases drawn for an op that has no formula are judged by its reference, in a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.campaign.search.stopping import Interruption, SessionLimits
from fuzz.campaign.session import Session
from fuzz.core.adapters.target import Target
from fuzz.core.base.errors import InternalError
from fuzz.findings.book import FindingBook
from fuzz.findings.tally import Observer, Tally
from fuzz.references.replay.oracle import Replay, ReplayFailure
from fuzz.tasks.task import Task, drive


@dataclass(frozen=True)
class ReplayResults:
    """The results of a replay."""

    replay: Replay
    tally: Tally
    book: FindingBook

    def failures(self, kernel: str) -> Sequence[ReplayFailure]:
        """Return the failures of a kernel, each the smallest failing case of one of its targets."""
        failing = [each for each in self.book.buckets.values() if each.kernel == kernel]
        return [self.replay.failure(each.case, each.judgement) for each in failing]


def run_replay(
    replay: Replay,
    targets: Sequence[Target],
    seed: int,
    limits: SessionLimits,
    folder: Path,
    laws: Sequence[str] = (),
    *,
    enough: Callable[[Tally], bool] = lambda tally: False,
    stop: Interruption | None = None,
    observer: Observer | None = None,
    explain_s: float = 0.0,
    **how: Any,
) -> ReplayResults:
    """Judge cases until a limit is reached, `enough` says so, or a stop is wanted; then look for the causes of failures
    in `explain_s` seconds. An `observer` is told of each case. `how` are further arguments of the session. Cases of
    internal errors are written to the folder. Raises ReplayError, InternalError, and UsageError if the only kernel
    cannot be called."""
    task = Task(targets, looks_far=False, replay=replay)
    book, scope = task.book(folder, seed), task.scope(laws, probed=True)
    stop = stop or Interruption()
    session = Session(targets, book, scope, seed, limits, searched=(), tells_facts=False, interruption=stop, **how)
    with session:
        session.observers = (*session.observers, *filter(None, [observer]))
        stop.within(lambda: drive(task, session, enough=enough))
        if explain_s and book.buckets and not stop.wanted:
            from fuzz.references.replay.causes import explain_replay  # what passes explains nothing

            stop.within(lambda: explain_replay(replay, session.pool, book, explain_s))
    if book.errors:
        raise InternalError("\n".join(book.errors))
    return ReplayResults(replay, session.tally, book)
