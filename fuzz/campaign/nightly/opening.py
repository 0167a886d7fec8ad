"""How a night and its slices are begun, resumed and closed; saving what a session counts, twice a second; and searches
that a store remembers beside its nights, with their findings in the store's buckets."""

from __future__ import annotations

import hashlib
import math
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import Engine, func, insert, orm, select, update
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError

from fuzz.campaign.nightly.sharing import Slice
from fuzz.campaign.search.stopping import Interruption
from fuzz.campaign.session import Session
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base import __version__
from fuzz.core.base.case import Case
from fuzz.core.base.feature import label_words
from fuzz.core.base.kernel import Kernel, capabilities_of
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Wait
from fuzz.core.generate.conditions import Together
from fuzz.core.generate.search import SHARDS
from fuzz.core.generate.space import space_of
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.registry import declared
from fuzz.explain.diagnosis import TimeShares
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket, Source, by_family
from fuzz.findings.database import answering, is_shared, name_of, open_store, write_rows
from fuzz.findings.database_store import DatabaseStore, restore, told_again
from fuzz.findings.database_views import NightTotals, nights_of
from fuzz.findings.explainer import Explainer
from fuzz.findings.state import FencedError
from fuzz.findings.store import Position, unsaved_path, utc_now
from fuzz.findings.tables import CounterRow, LeaseRow, NightRow, SessionRow, SliceRow, TargetRow
from fuzz.findings.tally import Observer, Tally
from fuzz.report.records import status_record

RESUMABLE = ("", "signal")
"""The ends of a night after which `--resume` continues it; '' stands for a kill or an error."""
KNOWN_SHARE = 0.25
"""The largest share of a night for running what is known: earlier findings and corpora."""
_SILENT = timedelta(seconds=60)
"""A session that saved nothing for this long counts as ended, and another place may continue its night. Chosen: a store
may be out of reach for a while."""
_LATEST = 16
"""The number of latest nights among which one to continue is looked for."""


@dataclass(frozen=True)
class Opened:
    """A night that this session works on."""

    night: int
    seed: int
    left_s: float
    position: Position
    resumed: bool
    limit_s: float
    """The seconds of the whole night."""
    command: str
    """The command that started the night."""


def latest_night(engine: Engine, place: str) -> NightTotals | None:
    """Return the night that `--resume` continues; None if there is none."""
    with orm.Session(engine) as transaction:
        row = _latest(transaction, place, "nightly")
        return None if row is None else nights_of(transaction)[row.id]


def open_night(
    engine: Engine, seed: int, limit_s: float, command: str, facts: Mapping[str, Any], resume: bool, place: str = "",
    verb: str = "nightly",
) -> Opened:  # fmt: skip
    """Return the latest night if `resume` is true and it can be continued, else a new one with this seed. A night on
    which another `place` works is left alone."""
    with orm.Session(engine) as transaction, transaction.begin():
        night = _latest(transaction, place, verb)
        resumed = resume and night is not None and night.ended in RESUMABLE
        if night is not None and not resumed and night.ended == "":
            night.ended = "next night"
        if night is None or not resumed:
            night = NightRow(seed=seed, started=utc_now(), version=__version__, verb=verb)
        night.limit_s, night.command, night.environment, night.ended = limit_s, command, dict(facts), ""
        transaction.add(night)
        transaction.flush()
        times = select(func.sum(SessionRow.used_s), func.sum(SessionRow.triage_s)).filter_by(night_id=night.id)
        used_s, triage_s = (seconds or 0.0 for seconds in transaction.execute(times).one())
        session = SessionRow(night_id=night.id, started=utc_now(), place=place, heard=utc_now())
        transaction.add(session)
        transaction.flush()
        position = Position(night.id, session.id, used_s, time.monotonic(), earlier_triage_s=triage_s)
        transaction.execute(update(LeaseRow).filter_by(night_id=night.id).values(token=position.token))
        return Opened(night.id, night.seed, max(0.0, limit_s - used_s), position, resumed, limit_s, command)


def _latest(transaction: orm.Session, place: str, verb: str) -> NightRow | None:
    """Return the latest night on which no other place works."""
    nights = transaction.scalars(select(NightRow).filter_by(verb=verb).order_by(NightRow.id.desc()).limit(_LATEST))
    return next((each for each in nights if not _is_busy(transaction, each, place)), None)


def folder_digest(state: Path) -> str:
    """Return a digest that identifies a folder on this machine without revealing its name."""
    return hashlib.blake2b(f"{platform.node()}/{state.absolute()}".encode(), digest_size=8).hexdigest()


def _is_busy(transaction: orm.Session, night: NightRow, place: str) -> bool:
    """Whether another place works on the night. This place does not: its folder is locked."""
    latest = select(SessionRow).filter_by(night_id=night.id).order_by(SessionRow.id.desc()).limit(1)
    session = transaction.scalars(latest).one_or_none()
    if session is None or session.ended or session.place == place or session.heard is None:
        return False
    return utc_now() - session.heard < _SILENT


def note_targets(engine: Engine, night: int, targets: Iterable[Target], statuses: Mapping[str, dict[str, Any]]) -> None:
    """Record which targets run in this night, and why others do not."""
    rows = [
        {
            "night_id": night,
            "name": target.id,
            "kernel": target.kernel.name,
            "op": target.kernel.op,
            "runs": statuses[target.id]["runs"],
            "reason": statuses[target.id].get("reason", ""),
            "attested": statuses[target.id],
        }
        for target in targets
    ]
    with orm.Session(engine) as transaction, transaction.begin():
        write_rows(transaction, TargetRow, rows, replaced=("runs", "reason", "attested"))


def note_space(engine: Engine, night: int, kernels: Sequence[Kernel], laws: Iterable[str]) -> None:
    """Record the space that this night should visit, as far as the running kernels accept it: the parts that it does
    not visit are its coverage gaps."""
    labels = [
        {"what": "space", "subject": op, **dict(zip(("kind", "value"), label_words((kind, value)), strict=True))}
        for op in sorted({kernel.op for kernel in kernels})
        for kind, values in space_of(capabilities_of(kernels, op)).items()
        for value in values
    ]
    compared = [{"what": "compared", "subject": law, "kind": "", "value": ""} for law in laws]
    with orm.Session(engine) as transaction, transaction.begin():
        write_rows(transaction, CounterRow, [{"night_id": night, "count": 0, **each} for each in (*labels, *compared)])


def begin_slice(engine: Engine, position: Position, turn: Slice) -> None:
    """Insert a row for the slice and one for each of its shards, and start its clock. Raises FencedError if another
    session has begun the slice. If this session did, and only the store's answer was lost, it is no error."""
    shards = {"night_id": position.night, "epoch": turn.number}
    try:
        with orm.Session(engine) as transaction, transaction.begin():
            lease = transaction.scalar(select(LeaseRow.token).filter_by(**shards).limit(1))
            if lease not in (None, position.token):
                raise FencedError(position.night)
            row = transaction.scalar(select(SliceRow).filter_by(night_id=position.night, number=turn.number))
            if row is None or lease is None:
                row = SliceRow(night_id=position.night, number=turn.number, op=turn.op, seed=turn.seed)
                transaction.add(row)
                leases = [{**shards, "shard": shard, "token": position.token} for shard in range(SHARDS)]
                transaction.execute(insert(LeaseRow), leases)
            transaction.flush()
            began = row.id
    except IntegrityError as error:  # another session was first
        raise FencedError(position.night) from error
    position.slice, position.slice_began, position.epoch = began, time.monotonic(), turn.number


def end_slice(
    engine: Engine, position: Position, searched_s: float = 0.0, new: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Record that the slice had its full time: for how long it searched, and what it showed that was new."""
    with orm.Session(engine) as transaction, transaction.begin():
        row = transaction.get_one(SliceRow, position.slice)
        row.done, row.searched_s, row.new = True, searched_s, dict(new)


def close(engine: Engine, position: Position, how: str) -> None:
    """Record how the session and the night ended: 'limit', 'signal', or 'error', after which the night can be
    resumed."""
    with orm.Session(engine) as transaction, transaction.begin():
        transaction.get_one(SessionRow, position.session).ended = how
        transaction.get_one(NightRow, position.night).ended = "" if how == "error" else how


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
