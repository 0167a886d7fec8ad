"""Watches a night's runs and saves them, one transaction per batch."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session as Transaction

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.verdict import Verdict
from fuzz.findings.accuracy import accuracy_of
from fuzz.findings.database_deltas import Clock, Delta, TargetCounts, write
from fuzz.findings.tally import Tally
from fuzz.judge.judge import Judgement
from fuzz.uses.nightly.book import NightBook
from fuzz.uses.nightly.stopping import Stopping


@dataclass
class Place:
    """Where in the night we are: the slice that is running, and when it and the session began."""

    night: int
    session: int
    used_s: float
    """by earlier sessions."""
    began: float
    slice: int = 0
    slice_began: float = 0.0
    triage_s: float = 0.0

    def clock(self) -> Clock:
        """The rows to be brought up to date, and to which time."""
        at = time.monotonic()
        session_s = at - self.began
        return Clock(
            self.night, self.session, self.slice, self.used_s + session_s, session_s, at - self.slice_began,
            self.triage_s,
        )  # fmt: skip


@dataclass
class Recorder:
    """An observer of the runner. Whole batches are saved; what cannot be saved now is kept and saved with the next."""

    engine: Engine
    targets: Mapping[str, Target]
    book: NightBook
    tally: Tally
    place: Place
    stopping: Stopping
    say: Callable[[str], None]
    """prints one line for the user."""
    trouble: str = ""
    """why the latest batches are not saved; '' when everything is."""

    def __post_init__(self) -> None:
        self._batch = Delta()
        self._unsaved = Delta()
        self._laws = dict(self.tally.laws)

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """One case on all targets."""
        batch = self._batch
        batch.cases += 1
        ran = False
        for judgement in judgements:
            counts = batch.targets.setdefault(judgement.target, TargetCounts())
            if judgement.verdict is Verdict.NOT_RUN:
                counts.not_run += 1
                counts.reason = judgement.reason
                continue
            ran = True
            counts.judged += 1
            counts.findings += judgement.verdict.is_finding
            counts.gave_up += judgement.verdict is Verdict.ORACLE_GAVE_UP
            if judgement.law is not None and judgement.law.name in self.targets[judgement.target].kernel.laws:
                batch.twins[judgement.target, judgement.law.name] += 1
            if judgement.verdict is Verdict.PASS:
                self._note_accuracy(case, judgement)
        if ran:
            batch.coverage.update((case.op, kind, value) for kind, value in case.origin.labels)
        self._note_replay(case, judgements)

    def progress(self, elapsed: float) -> None:
        """A batch is complete: save it."""
        laws = self.tally.laws
        self._batch.laws.update({name: count - self._laws.get(name, 0) for name, count in laws.items()})
        self._laws = dict(laws)
        self._batch.buckets, self.book.staged = self.book.staged, {}
        self._batch.moves, self.book.moves = self.book.moves, []
        if self._batch.judged:
            minute = int(self.place.clock().night_s // 60)
            self._batch.pace[minute] = [self._batch.judged, self._batch.cases]
        self.save()

    def save(self) -> bool:
        """Commit everything up to the last complete batch; False, said once, where it cannot be written."""
        with self.stopping.shielded():
            if self.book.trouble:
                self._batch.files.update(self.book.write_again())
            self._unsaved.add(self._batch)
            self._batch = Delta()
            trouble = self._commit() or self.book.trouble
            if trouble and not self.trouble:
                self.say(f"not saved: {trouble}; the night goes on and tries again after every batch: free some space")
            elif self.trouble and not trouble:
                self.say("saved again: nothing was lost")
            self.trouble = trouble
        return not trouble

    def drop_batch(self) -> None:
        """Forget the batch that was cut off: its cases were not all judged. The database goes on naming the files that
        the batch put others in place of; what no bucket keeps in the end is replayed and removed by the next night."""
        self._batch = Delta()
        self.book.staged, self.book.moves, self.book.obsolete = {}, [], []

    def replayed(self, signature: str, case: Case, judgement: Judgement) -> None:
        """The kept case of a bucket after the calls that it needs, in a process of its own."""
        self.judged(case, [judgement])
        if judgement.verdict.is_finding:
            self.book.count(signature, judgement.target)
        elif judgement.verdict is Verdict.PASS:
            self._batch.passed.add(signature)
        self.progress(0.0)

    def _commit(self) -> str:
        try:
            with Transaction(self.engine) as transaction, transaction.begin():
                write(transaction, self._unsaved, self.place.clock())
        except OperationalError as error:
            return f"{self.engine.url.database}: {error.orig}"
        self._unsaved = Delta()
        for path in self.book.obsolete:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        self.book.obsolete.clear()
        return ""

    def _note_accuracy(self, case: Case, judgement: Judgement) -> None:
        found = accuracy_of(case, judgement, self.targets[judgement.target].numerics)
        if found is None:
            return
        point, accuracy = found
        known = self._batch.accuracy.get(point)
        if known is None:
            self._batch.accuracy[point] = accuracy
        else:
            known.add(accuracy)

    def _note_replay(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """A kept case that no target fails any longer, among them the one that it is kept for: others prove nothing."""
        signature = self.book.replaying.get(case.digest)
        if signature is None or any(judgement.verdict.is_finding for judgement in judgements):
            return
        kept = self.book.kept[signature]
        # What needs earlier calls may be hidden by others in a process that lives on: it is replayed in one of its own.
        if kept.alone and any((each.target, each.verdict) == (kept.target, Verdict.PASS) for each in judgements):
            self._batch.passed.add(signature)
