"""A session of a night: one process, from the start of its workers to the last that it saves. It replays what is known,
then searches in slices, and saves each finding with its batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from fuzz.adapters.pack import Pack
from fuzz.adapters.target import Target
from fuzz.base.files import set_aside
from fuzz.execute.pool import WorkerPool
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket, Source, by_family
from fuzz.findings.database_store import DatabaseStore
from fuzz.findings.database_views import SliceTotals, slices_of
from fuzz.findings.state import FINDINGS
from fuzz.findings.tally import Observer
from fuzz.generate.pairing import pairing_of
from fuzz.laws.registry import declared
from fuzz.report.failure import Provenance, failure_text
from fuzz.report.progress import Progress
from fuzz.report.records import status_record
from fuzz.uses.corpus.folder import Kept, entries_of
from fuzz.uses.nightly.earlier import corpora_of, known_cases, published, until
from fuzz.uses.nightly.opening import (
    REPLAY_SHARE,
    Opened,
    Turn,
    begin_slice,
    end_slice,
    next_turn,
    note_space,
    note_targets,
    searching_time,
    slice_seed,
)
from fuzz.uses.nightly.recorder import Recorder
from fuzz.uses.nightly.triage import NightTriage
from fuzz.uses.search.processes import Processes
from fuzz.uses.search.runner import Limits, Runner
from fuzz.uses.search.schedule import CountedSchedule, slow_targets_of
from fuzz.uses.search.stopping import Stopping
from fuzz.uses.search.taker import Terms
from fuzz.uses.starting import crew_line, restarted, started

_PATIENCE_S = 1.0
"""The last save is tried for this many seconds: another process that reads is done by then. The number is chosen, not
measured."""
_SLOW_EVERY = 8
"""Slow targets are given one batch in this many of what is replayed, besides the cases that are kept for them."""
_REPLAY = ""
"""The slice in which known cases are replayed has this op."""


class CannotSave(Exception):  # noqa: N818 (not a mistake of the caller)
    """The state cannot be written; what is in it is whole, and the night can be resumed."""


@dataclass(frozen=True)
class NightSession:
    """What one session of a night works with."""

    state: Path
    pack: Pack
    pack_option: tuple[str, ...]
    targets: Sequence[Target]
    engine: Engine
    opened: Opened
    stopping: Stopping
    limit_s: float
    """The whole night has this many seconds."""
    crew: Processes | None = None
    """They take the turns of its searches; without them this process does."""
    case_limit: float | None = None
    jobs: int = 0
    errors: list[str] = field(default_factory=list)
    """Errors of ours, for the end of the night."""

    def work(self, workers: ExitStack, err: Console) -> bool:
        """Work until a stop is wanted; the workers are killed then, and released by `workers`. False where the end of
        it could not be saved."""

        def say(line: str) -> None:
            err.print(line, style="yellow")

        pool, night, saved = None, None, True
        with ExitStack() as shown, self.stopping.abortable():
            pool = workers.enter_context(started(self.targets, self.jobs, err, self.case_limit))
            night = self._prepared(pool, say)
            night.watch(shown.enter_context(Progress(err, night.runner.tally, self.opened.left_s, None)))
            try:
                night.work()
            except CannotSave as error:
                say(f"the night stops: {error}")
                saved = False
        if pool is not None:
            pool.stop()  # else they would take the processors from what is saved now
        if night is None or not saved:
            return saved
        for line in night.recorder.book.errors:
            say(line)
        self.errors.extend(night.recorder.book.errors)
        if self.crew is not None:
            for line in restarted(night.pool, self.crew):
                say(line)
            err.print(crew_line(self.crew))
        if night.runner.in_flight:
            say(f"dropped: {night.runner.in_flight} turns on their way were not judged in time, and do not count")
        return self.opened.position.slice == 0 or last_save(night)

    def _prepared(self, pool: WorkerPool, say: Callable[[str], None]) -> NightRun:
        """The night with its targets and what it should visit on record."""
        statuses = {name: status_record(status) for name, status in pool.statuses.items()}
        running = tuple(dict.fromkeys(target.kernel for target in self.targets if statuses[target.id]["runs"]))
        with self.stopping.shielded():
            note_targets(self.engine, self.opened.night, self.targets, statuses)
            note_space(self.engine, self.opened.night, running, declared(running))
        for kernel in running:  # some seconds now, which there are not at the end
            pairing_of(kernel.capability)
        return NightRun(self, pool, say)


@dataclass
class NightRun:
    """The parts of a session that has workers, made once."""

    session: NightSession
    pool: WorkerPool
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        session, position = self.session, self.session.opened.position
        self._turn = Turn(0, _REPLAY, 0, 0.0)
        self._findings, self._corpora = session.state / FINDINGS, corpora_of(session.pack.path)
        store = DatabaseStore(session.engine, self._findings, position, self._text)
        by_id = {target.id: target for target in session.targets}
        book = FindingBook(store, self._source, by_id, by_family, store.load())
        kernels = session.pack.kernels  # all of them, whatever targets were chosen: they decide the cases
        every = ([target.id for target in session.targets],)
        terms = (
            session.crew.terms if session.crew is not None else Terms(kernels, declared(kernels), every, accuracy=True)
        )
        self.runner = Runner(
            self.pool, session.targets, Limits(), book, declared(kernels), kernels, crew=session.crew,
            terms=terms, interruption=session.stopping, patient=True,
        )  # fmt: skip
        self.recorder = Recorder(book.targets, book, position, session.stopping, self.say)
        self.triage = NightTriage(
            self.pool, session.targets, book, position, session.stopping, session.limit_s, self.runner.before
        )
        self.runner.asked_for = self.triage.waiting

    @property
    def ops(self) -> list[str]:
        """What is searched."""
        return sorted({target.kernel.op for target in self.session.targets})

    def watch(self, *more: Observer) -> None:
        """Tell the recorder of everything, and these."""
        self.runner.observers = [self.recorder, *more]

    def work(self) -> None:
        """Replay, then search, until a stop is wanted. Raises CannotSave where the disk is full for too long."""
        self.runner.skipped = CountedSchedule(frozenset(), slow_targets_of(self.session.targets), _SLOW_EVERY)
        earlier = self._slices()
        if not any(part.done for part in earlier if part.op == _REPLAY):
            with self._slice(Turn(len(earlier), _REPLAY, slice_seed(self.session.opened.seed, len(earlier)), math.inf)):
                self._replay()
                self._explain()
        while self.ops and self.session.stopping.left > 0:
            turn = self._next()
            with self._slice(turn):
                self.runner.limits = Limits(searching_time(turn, self.session.stopping.left))
                self.runner.run(turn.op, turn.seed)
                self._explain()

    def _explain(self) -> None:
        """At the end of a slice, when no batch is on its way."""
        self.recorder.save()
        while self.triage.explain_one():
            self.recorder.save()

    def _next(self) -> Turn:
        parts = self._slices()
        used: dict[str, list[float]] = {}
        for part in parts:
            used.setdefault(part.op, []).append(part.seconds)
        return next_turn(self.session.opened.seed, len(parts), self.ops, used, self.session.stopping.left)

    @contextmanager
    def _slice(self, turn: Turn) -> Iterator[None]:
        """What is done inside is recorded as one slice."""
        try:
            with self.session.stopping.shielded():
                begin_slice(self.session.engine, self.session.opened.position, turn)
            self._turn = turn
            yield
            if not self.session.stopping.wanted:
                with self.session.stopping.shielded():
                    end_slice(self.session.engine, self.session.opened.position)
        except OperationalError as error:
            raise CannotSave(f"{self.session.engine.url.database}: {error.orig}") from error

    def _replay(self) -> None:
        """Findings of earlier nights, files that a killed session left behind, corpora."""
        known, broken = known_cases((self._findings, *self._corpora), self.ops)
        for path, why in broken.items():
            kept = f"; it is kept as {set_aside(path).name}" if path.parent == self._findings else ""
            self.say(f"not replayed: {why}{kept}")
        book = self.recorder.book
        names = {bucket.path: name for name, bucket in book.buckets.items() if bucket.path is not None}
        book.replaying = {entries_of(each)[-1].case.digest: names[each.path] for each in known if each.path in names}
        allowed = self.session.stopping.left * REPLAY_SHARE
        end = time.monotonic() + allowed
        shares, kept_for = self.runner.skipped, {book.buckets[name].target for name in names.values()}
        self.runner.skipped = lambda: frozenset(shares()) - kept_for  # the rest say nothing of what is kept
        self.runner.replay(until(map(entries_of, known), allowed))
        self.runner.skipped, book.replaying = shares, {}
        for each in known:
            bucket = book.buckets.get(names.get(each.path, ""))
            if bucket is not None and each.found is not None and each.found.history and time.monotonic() < end:
                judgement = self.triage.replay_history(each)
                if judgement is not None:
                    self.recorder.replayed(bucket, each.case, judgement)
        left = end - time.monotonic()
        if left > 0 and not self.session.stopping.wanted:  # so all of them were replayed
            self._sweep(known)
            self.runner.replay(until(published(self._corpora, self.ops, self.say, broken), left))

    def _sweep(self, known: Sequence[Kept]) -> None:
        """Remove the case files that no bucket keeps: they were replayed, and what still fails is kept now."""
        if self.recorder.trouble:
            return
        kept = {bucket.path for bucket in self.recorder.book.buckets.values()}
        for each in known:
            if each.path.parent == self._findings and each.path not in kept:
                each.path.unlink(missing_ok=True)

    def _slices(self) -> list[SliceTotals]:
        with Session(self.session.engine) as transaction:
            return slices_of(transaction, self.session.opened.night)

    def _source(self) -> Source:
        if self._turn.op == _REPLAY:
            return Source(self._turn.seed, "replay of what was known before the night")
        words = ["kernelfuzz run", "--seed", str(self._turn.seed), "--op", self._turn.op, *self.session.pack_option]
        return Source(self._turn.seed, " ".join(words))

    def _text(self, bucket: Bucket) -> str:
        origin = Provenance(bucket.source.seed, bucket.source.command, self.session.pack_option)
        target = self.recorder.book.targets[bucket.target]
        return failure_text(bucket.case, bucket.judgement, target, bucket.others, bucket.path, origin)


def last_save(night: NightRun) -> bool:
    """Save what is left; tried again for a moment, since another process may just be reading. False: it cannot be."""
    until = time.monotonic() + _PATIENCE_S
    while not night.recorder.save():
        if time.monotonic() >= until:
            return False
        time.sleep(0.1)
    return True
