"""Saving what a session counts, twice a second; and searches that a store remembers beside its nights, with their
findings in the store's buckets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError

from fuzz.campaign.nightly.opening import (
    Opened,
    begin_slice,
    close,
    end_slice,
    folder_digest,
    note_space,
    note_targets,
    open_night,
)
from fuzz.campaign.nightly.sharing import Slice
from fuzz.campaign.search.stopping import Interruption
from fuzz.campaign.session import Session
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case
from fuzz.core.base.feature import label_words
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Wait
from fuzz.core.generate.conditions import Together
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.registry import declared
from fuzz.explain.diagnosis import TimeShares
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket, Source, by_family
from fuzz.findings.database import answering, is_shared, name_of, open_store
from fuzz.findings.database_store import DatabaseStore, restore, told_again
from fuzz.findings.explainer import Explainer
from fuzz.findings.state import FencedError
from fuzz.findings.store import Position, unsaved_path
from fuzz.findings.tally import Observer, Tally
from fuzz.report.records import status_record

SAVE_S = 0.5
"""Seconds between two saves, and so the most that a killed night loses. Each turn cannot be saved alone: sixteen
processors report hundreds a second."""


@dataclass
class Recorder(Observer):
    """An observer of the runner that saves whole turns. If saving fails, all is kept for the next save."""

    targets: Mapping[str, Target]
    book: FindingBook
    position: Position
    stopping: Interruption
    say: Callable[[str], None]
    """A function that prints a line for the user."""
    remedy: str = "free some space"
    """The advice that is printed if saving fails."""
    trouble: str = ""
    """Why the latest turns are not saved; '' if all are."""
    clock: Callable[[], float] = time.monotonic
    _saved: float = -math.inf

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """Note that a kept case passes on all targets, provided that the target for which it is kept ran it."""
        bucket = self.book.buckets.get(self.book.running_again.get(case.digest, ""))
        if bucket is None or any(judgement.verdict.is_finding for judgement in judgements):
            return
        # Not if the failure needs earlier calls: in a process that lives on, others may hide it. It runs alone.
        if bucket.alone and any((each.target, each.verdict) == (bucket.target, Verdict.PASS) for each in judgements):
            self.book.batch.passed.add(bucket.name)

    def counted(self, more: Tally) -> None:
        """Add what was judged since the last call to the batch."""
        batch, now = self.book.batch, (self.position.slice, self.position.minute)
        batch.cases[now] += more.cases
        batch.judged[now] += more.judged
        for name, line in more.targets.items():
            for what in ("judged", "findings", "gave_up", "not_run"):
                batch.counts[what, name] += getattr(line, what)
            for law, count in line.twins.items():
                batch.counts["twin", name, law] += count
            for (output, dtype), count in line.decided.items():
                batch.counts["open" if count else "decided", name, output, dtype] += count or 1
            if line.not_run:
                batch.reasons[name] = line.not_run_reason
            if line.broken:
                batch.broken[name] = line.broken
        for law, count in more.laws.items():
            batch.counts["compared", law] += count
        for op, visits in more.visits.items():
            batch.counts.update(
                {("visit", op, *label_words(label)): n for label, n in visits.items() if label[0].kind != "target"}
            )
        for op, together in more.together.items():
            batch.together.setdefault(op, Together()).add(together)
        for point, worst in (more.accuracy or {}).items():
            batch.note(point, worst)

    def progress(self, elapsed: float) -> None:
        """Save, if the last save was long enough ago."""
        if self.clock() - self._saved >= SAVE_S:
            self.save()

    def waiting(self, waits: Sequence[Wait], elapsed: float) -> None:
        """Save as `progress` does: the next turn may take long."""
        self.progress(elapsed)

    def save(self) -> bool:
        """Commit everything up to the last whole turn. Return False if it cannot be written, after saying so once."""
        self._saved = self.clock()
        with self.stopping.shielded():
            trouble = self.book.commit()
            if trouble and not self.trouble:
                self.say(f"not saved: {trouble}; it goes on, and is tried again after every batch: {self.remedy}")
            elif self.trouble and not trouble:
                self.say("saved again: nothing was lost")
            self.trouble = trouble
        return not trouble

    def ran_again(self, bucket: Bucket, case: Case, judgement: Judgement) -> None:
        """Count the judgement of a bucket's kept case, run in its own process after the calls that it needs."""
        more = Tally(accuracy={})
        more.count(case, [judgement], self.targets)
        self.counted(more)
        self.judged(case, [judgement])
        if judgement.verdict.is_finding:
            self.book.count(bucket, judgement.target)
        elif judgement.verdict is Verdict.PASS:
            self.book.batch.passed.add(bucket.name)
        self.save()


@dataclass(frozen=True)
class Remembered:
    """A search that a store remembers: it has a row among the nights, and one slice."""

    engine: Engine
    opened: Opened
    book: FindingBook

    def begin(self, session: Session, say: Callable[[str], None]) -> Recorder:
        """Record the targets that run. Return the observer that saves what is counted."""
        statuses = session.pool.statuses
        with answering(self.engine):
            note_targets(
                self.engine, self.opened.night, session.targets, {n: status_record(s) for n, s in statuses.items()}
            )
        running = [each.kernel for each in session.targets if not isinstance(statuses[each.id], NotRun)]
        running = list(dict.fromkeys(running))
        with answering(self.engine):
            note_space(self.engine, self.opened.night, running, declared(running))
        return Recorder(
            self.book.targets,
            self.book,
            self.opened.position,
            session.interruption,
            say,
            "see that the store can be reached",
        )

    def recall(self, session: Session) -> None:
        """Replace the case of each bug that the search saw by the smallest one in the store, if that is smaller, and
        take over explanations from the store."""
        explainer = Explainer(session.workers, session.targets, self.book, TimeShares(least_s=0.0))
        for bucket in self.book.buckets.values():
            known = bucket.finding is None or not bucket.pending
            if known and bucket.count and not session.interruption.terminated:
                explainer.recall(bucket)
            bucket.finding = bucket.finding or bucket.glimpse
            bucket.pending = bucket.pending or (bucket.finding is not None and bucket.finding.told is None)

    def end(self, recorder: Recorder, interruption: Interruption) -> bool:
        """Save what is left, and how the search ended. Return False if that fails, after saying where the rest is
        kept."""
        try:
            if recorder.save():
                end_slice(self.engine, self.opened.position)
                close(self.engine, self.opened.position, "signal" if interruption.wanted else "limit")
                return True
        except FencedError as error:
            recorder.say(str(error))
            return False
        except (OperationalError, InterfaceError):
            pass  # only the end is not saved
        path = unsaved_path(self.book.store.folder, self.opened.position)
        away = f"the store {name_of(self.engine)} is away: what it was not told is kept in {path}"
        full = f"{name_of(self.engine)} has not all of this search: {recorder.trouble or 'its end could not be saved'}"
        recorder.say(f"{away}; the next search or night with this folder tells it" if is_shared(self.engine) else full)
        return False


def remembered(
    store: str, folder: Path, seed: int, command: str, op: str, limit_s: float | None, targets: Sequence[Target],
    facts: Mapping[str, Any], say: Callable[[str], None],
) -> Remembered:  # fmt: skip
    """Return a search of these targets, begun in the store with this URL. Raises StateError."""
    engine = open_store(store)
    with answering(engine):
        for line in told_again(engine, folder):
            say(line)
        restore(engine, folder)
        opened = open_night(engine, seed, limit_s or 0.0, command, facts, False, folder_digest(folder), "run")
        begin_slice(engine, opened.position, Slice(0, op, seed, math.inf))
        saved = DatabaseStore(engine, folder, opened.position)
        known = saved.load()
    by_id = {target.id: target for target in targets}
    return Remembered(engine, opened, FindingBook(saved, lambda: Source(seed, command), by_id, by_family, known))
