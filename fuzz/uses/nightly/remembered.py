"""A run that a store remembers, beside the nights: what it found goes into the buckets that they have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError

from fuzz.adapters.target import NotRun, Target
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Source, by_family
from fuzz.findings.database import answering, is_shared, name_of, open_store
from fuzz.findings.database_store import DatabaseStore, restore, told_again
from fuzz.findings.explainer import Explainer
from fuzz.findings.state import FencedError
from fuzz.findings.store import unsaved_path
from fuzz.laws.registry import declared
from fuzz.report.records import status_record
from fuzz.triage.diagnosis import TimeShares
from fuzz.uses.nightly.opening import (
    Opened,
    Slice,
    begin_slice,
    close,
    end_slice,
    note_space,
    note_targets,
    open_night,
    place_of,
)
from fuzz.uses.nightly.recorder import Recorder
from fuzz.uses.search.stopping import Interruption
from fuzz.uses.session import Session


@dataclass(frozen=True)
class Remembered:
    """One run in a store: it has a row among the nights, and one slice."""

    engine: Engine
    opened: Opened
    book: FindingBook

    def begin(self, session: Session, say: Callable[[str], None]) -> Recorder:
        """Put on record what runs; the observer that saves what is counted."""
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
        """Have the smallest known case of each bug that the run saw, where others had found it; else one of its own.
        What others have explained is as they did."""
        explainer = Explainer(session.workers, session.targets, self.book, TimeShares(least_s=0.0))
        for bucket in self.book.buckets.values():
            known = bucket.finding is None or not bucket.pending
            if known and bucket.count and not session.interruption.terminated:
                explainer.recall(bucket)
            bucket.finding = bucket.finding or bucket.glimpse
            bucket.pending = bucket.pending or (bucket.finding is not None and bucket.finding.told is None)

    def end(self, recorder: Recorder, interruption: Interruption) -> bool:
        """Save what is left, and how the run ended; False, with a word where it is, where that cannot be."""
        try:
            if recorder.save():
                end_slice(self.engine, self.opened.position)
                close(self.engine, self.opened.position, "signal" if interruption.wanted else "limit")
                return True
        except FencedError as error:
            recorder.say(str(error))
            return False
        except (OperationalError, InterfaceError):
            pass  # all but the end is saved
        path = unsaved_path(self.book.store.folder, self.opened.position)
        away = f"the store {name_of(self.engine)} is away: what it was not told is kept in {path}"
        full = f"{name_of(self.engine)} has not all of this run: {recorder.trouble or 'its end could not be saved'}"
        recorder.say(f"{away}; the next run or night with this folder tells it" if is_shared(self.engine) else full)
        return False


def remembered(
    store: str, folder: Path, seed: int, command: str, op: str, limit_s: float | None, targets: Sequence[Target],
    facts: Mapping[str, Any], say: Callable[[str], None],
) -> Remembered:  # fmt: skip
    """A run of these targets, begun in the store of that URL. Raises StateError."""
    engine = open_store(store)
    with answering(engine):
        for line in told_again(engine, folder):
            say(line)
        restore(engine, folder)
        opened = open_night(engine, seed, limit_s or 0.0, command, facts, False, place_of(folder), "run")
        begin_slice(engine, opened.position, Slice(0, op, seed, math.inf))
        saved = DatabaseStore(engine, folder, opened.position)
        known = saved.load()
    by_id = {target.id: target for target in targets}
    return Remembered(engine, opened, FindingBook(saved, lambda: Source(seed, command), by_id, by_family, known))
