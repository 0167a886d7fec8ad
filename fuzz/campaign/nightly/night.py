"""A session of a night: one process, from the start of its workers to its last save. It runs known cases, then
searches in slices, saves findings after each batch, and explains them within their share of the night."""

from __future__ import annotations

import contextlib
import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session as Transaction

from fuzz.campaign.corpus.folder import Kept, entries_of
from fuzz.campaign.nightly import opening, sharing
from fuzz.campaign.nightly.known import SharedFolder, corpora_of, known_cases, until
from fuzz.campaign.search.deadline import Stopping
from fuzz.campaign.search.executor import Engine as Cluster
from fuzz.campaign.search.runner import CountedSchedule, slow_targets_of
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.campaign.session import Session
from fuzz.core.adapters.pack import Pack
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.files import set_aside
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.pairing import pairing_of
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.registry import declared
from fuzz.explain.attribute.history import Fails, Need, Recognised, recognise
from fuzz.explain.diagnosis import SECONDS, TimeShares
from fuzz.explain.finding import Finding
from fuzz.explain.trial.trial import FreshProcess, OutOfTimeError, reproduced
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket, Source, by_family, hangs
from fuzz.findings.database import answering, is_shared, name_of, said_by
from fuzz.findings.database_store import DatabaseStore
from fuzz.findings.database_views import SliceTotals, slices_of
from fuzz.findings.explainer import Explainer
from fuzz.findings.state import FINDINGS
from fuzz.findings.store import Position
from fuzz.report.records import status_record

_PATIENCE_S = 1.0
"""Seconds for which the last save is tried: another process that reads the state is done by then. Chosen."""
_AWAY_PATIENCE_S = 6.0
"""Seconds for which the last save to a shared store is tried: longer than the pause between two attempts."""
_AWAY_S = 0.5
"""Seconds between two attempts to reach a shared store."""
_SLOW_EVERY = 8
"""Slow targets run one batch of known cases in this many, and the cases that are kept for them."""
_KNOWN = ""
"""The op that marks the slice in which known cases run."""


_T = TypeVar("_T")


class CannotSave(Exception):  # noqa: N818 (not a mistake of the caller)
    """The state cannot be written. The part that was saved is complete, and the night can be resumed."""


@dataclass
class Night:
    """One session of a night, with all that it needs."""

    state: Path
    pack: Pack
    pack_option: tuple[str, ...]
    targets: Sequence[Target]
    engine: Engine
    opened: opening.Opened
    stopping: Stopping
    say: Callable[[str], None]
    """A function that prints a line for the user."""
    case_limit: float | None = None
    jobs: int = 0
    cluster: Cluster | None = None
    """The machines that take the turns instead of this machine's processes, if any."""
    shared: Path | None = None
    """A folder through which machines without a common store give each other their findings."""

    def __post_init__(self) -> None:
        self._current, self._searched_s = sharing.Slice(0, _KNOWN, 0, 0.0), 0.0
        self._findings, self._corpora = self.state / FINDINGS, corpora_of(self.pack.path)
        self._shared = (
            None if self.shared is None else SharedFolder(self.shared, opening.folder_digest(self.state), self.say)
        )
        self._store = store = DatabaseStore(self.engine, self._findings, self.opened.position)
        by_id = {target.id: target for target in self.targets}
        with answering(self.engine):
            known = store.load()
        self.book = FindingBook(store, self._source, by_id, by_family, known)
        kernels = self.pack.kernels  # all of them, whatever targets were chosen: they determine the cases
        self.session = Session(
            self.targets, self.book, SearchScope(kernels, declared(kernels), accuracy=True), self.opened.seed,
            SessionLimits(self.opened.left_s), None, self.jobs, self.case_limit, interruption=self.stopping,
            longest=SessionLimits(self.opened.limit_s).longest_case, engine=self.cluster,
        )  # fmt: skip

    def work(self, held: ExitStack) -> bool:
        """Work until a stop is wanted, then kill the workers, whose resources `held` releases. Return False if the end
        could not be saved."""
        entered, begun, full = False, False, False
        with self.stopping.abortable():
            held.enter_context(self.session)
            entered = True
            try:
                self.begin()
                begun = True
                self.search()
            except CannotSave as error:
                self.say(f"the night stops: {error}")
                full = not is_shared(self.engine)  # a shared store may be back in time for the last save
        if entered:
            self.session.stop()  # else they would compete with saving for the processors
        if not begun:
            if not full and self.opened.left_s:
                self.say("nothing was judged: the time was over before all kernels were started")
            return not full
        self.session.tell_troubles()
        self.session.err.print(self.session.processes)
        if self.runner.in_flight:
            self.say(f"dropped: {self.runner.in_flight} turns on their way were not judged in time, and do not count")
        saved = self.opened.position.slice == 0 or self._last_save()
        if self._shared is not None:
            self._shared.publish(self._findings, self.ops)
        return saved

    def begin(self) -> None:
        """Record the targets and the space that should be visited, start the workers and prepare the search."""
        position, stopping = self.opened.position, self.stopping
        remedy = "see that the store can be reached" if is_shared(self.engine) else "free some space"
        self.recorder = opening.Recorder(self.book.targets, self.book, position, stopping, self.say, remedy)
        statuses = {name: status_record(status) for name, status in self.session.pool.statuses.items()}
        running = tuple(dict.fromkeys(target.kernel for target in self.targets if statuses[target.id]["runs"]))
        self._stored(lambda: opening.note_targets(self.engine, self.opened.night, self.targets, statuses))
        self._stored(lambda: opening.note_space(self.engine, self.opened.night, running, declared(running)))
        self._running = Counter(kernel.op for kernel in running)
        for kernel in running:  # takes some seconds, which the end of a night does not have
            pairing_of(kernel.capability)
        self.runner = self.session.runner(self.targets)
        self.runner.patient = True
        self.triage = NightTriage(
            self.session.workers,
            self.targets,
            self.book,
            position,
            stopping,
            self.opened.limit_s,
            self.runner.before,
            self.session.elsewhere,
            self.session.explain_there,
        )
        self.news = sharing.News(self.book.targets)
        if self.opened.resumed:
            self._stored(lambda: self.news.recall(self.engine, self.opened.night))
        self.runner.observers = [self.recorder, self.news, *self.session.observers]
        self.runner.asked_for = self.triage.waiting

    @property
    def ops(self) -> list[str]:
        """The ops that are searched."""
        return sorted({target.kernel.op for target in self.targets})

    def search(self) -> None:
        """Run known cases, then search, until a stop is wanted. Raises CannotSave if saving the state fails for too
        long."""
        self.runner.skipped = CountedSchedule(slow_targets_of(self.targets), _SLOW_EVERY)
        earlier = self._slices()
        if not any(part.done for part in earlier if part.op == _KNOWN):
            with self._slice(
                sharing.Slice(len(earlier), _KNOWN, sharing.slice_seed(self.opened.seed, len(earlier)), math.inf)
            ):
                self._run_known()
                self._explain()
        while self._running and self.stopping.left > 0:
            turn = self._next()
            with self._slice(turn):
                self.runner.resting = self._resting(turn.op)
                self.runner.limits = SessionLimits(sharing.searching_time(turn, self.stopping.left))
                began = time.monotonic()
                self.runner.run(turn.op, turn.seed)
                self._searched_s = time.monotonic() - began
                self._explain()

    def _explain(self) -> None:
        """Explain findings, as far as there is time. No batch runs then, since a slice has just ended; and each op has
        had a slice before."""
        self.recorder.save()
        had = {part.op for part in self._slices()}
        while self._running.keys() <= had and self.triage.explain_one():
            self.recorder.save()

    def _next(self) -> sharing.Slice:
        parts, used = self._slices(), dict[str, list[sharing.PastSlice]]()
        for part in parts:
            new = sum(part.new.values()) if part.done else None
            used.setdefault(part.op, []).append(sharing.PastSlice(part.searched_s or part.seconds, new))
        return sharing.next_slice(self.opened.seed, len(parts), self._running, used, self.stopping.left)

    def _resting(self, op: str) -> frozenset[str]:
        here = [target.id for target in self.targets if target.kernel.op == op]
        return sharing.resting(here, [part for part in self._slices() if part.op == op])

    @contextmanager
    def _slice(self, part: sharing.Slice) -> Iterator[None]:
        """Record the work inside the block as one slice."""
        self._stored(lambda: opening.begin_slice(self.engine, self.opened.position, part))
        self._current = part
        yield
        if not self.stopping.wanted:
            ran = {t.id for t in self.targets if t.kernel.op == part.op and t.id not in self.runner.resting}
            new = self.news.taken(ran)
            self._stored(lambda: opening.end_slice(self.engine, self.opened.position, self._searched_s, new))

    def _stored(self, asked: Callable[[], _T]) -> _T:
        """Return the store's answer; while a shared store cannot be reached, wait for it. Raises CannotSave."""
        while True:
            try:
                with self.stopping.shielded():
                    return asked()
            except (OperationalError, InterfaceError) as error:
                self.recorder.save()
                if self.stopping.wanted or not is_shared(self.engine):
                    raise CannotSave(f"{name_of(self.engine)}: {said_by(error)}") from error
                time.sleep(_AWAY_S)

    def _run_known(self) -> None:
        """Run findings of earlier nights, case files that a killed session left behind, and corpora."""
        known, broken = known_cases((self._findings, *self._corpora), self.ops)
        known += self._shared.of_others(known, self.ops) if self._shared is not None else []
        for path, why in broken.items():
            kept = f"; it is kept as {set_aside(path).name}" if path.parent == self._findings else ""
            self.say(f"not run: {why}{kept}")
        book = self.book
        names = {bucket.path: name for name, bucket in book.buckets.items() if bucket.path is not None}
        book.running_again = {
            entries_of(each)[-1].case.digest: names[each.path] for each in known if each.path in names
        }
        allowed = self.stopping.left * opening.KNOWN_SHARE
        end = time.monotonic() + allowed
        shares, kept_for = self.runner.skipped, {book.buckets[name].target for name in names.values()}
        self.runner.skipped = lambda: frozenset(shares()) - kept_for  # only the target of a kept case proves anything
        self.runner.run_entries(until(map(entries_of, known), allowed))
        self.runner.skipped, book.running_again = shares, {}
        for each in known:
            bucket = book.buckets.get(names.get(each.path, ""))
            if bucket is not None and each.found is not None and each.found.history and time.monotonic() < end:
                judgement = self.triage.reproduce(each)
                if judgement is not None:
                    self.recorder.ran_again(bucket, each.case, judgement)
        if time.monotonic() < end and not self.stopping.wanted:  # there was time for all of them
            self._sweep(known)

    def _sweep(self, known: Sequence[Kept]) -> None:
        """Remove the case files that belong to no bucket: they ran, and a failure that remains has its own
        file by now."""
        if self.recorder.trouble:
            return
        kept = {bucket.path for bucket in self.book.buckets.values()}
        for each in known:
            if each.path.parent == self._findings and each.path not in kept:
                each.path.unlink(missing_ok=True)

    def _slices(self) -> list[SliceTotals]:
        def asked() -> list[SliceTotals]:
            with Transaction(self.engine) as transaction:
                return slices_of(transaction, self.opened.night)

        return self._stored(asked)

    def _source(self) -> Source:
        if self._current.op == _KNOWN:
            return Source(self._current.seed, "a rerun of what was known before the night")
        words = ["kernelfuzz", "run", "--seed", str(self._current.seed), "--op", self._current.op, *self.pack_option]
        return Source(self._current.seed, shlex.join(words))

    def in_memory(self) -> Engine:
        """Return a copy of the state in memory, with all that could not be saved."""
        return self._store.in_memory(self.book.rescued())

    def _last_save(self) -> bool:
        """Save what is left, in several attempts since others may be reading. Return whether that succeeded."""
        until = time.monotonic() + (_AWAY_PATIENCE_S if is_shared(self.engine) else _PATIENCE_S)
        while not self.recorder.save():
            if time.monotonic() >= until:
                return False
            time.sleep(0.1)
        return True


_LEAST_S = 2.0
"""The least seconds for explaining a bucket; with less it is not begun. Chosen."""
_BOUNDS = TimeShares(least_s=_LEAST_S * 2 / 3, one_cause=0.75, later=True)
_TRYING_ALONE = 0.3
"""The share of a bucket's time for running its other findings alone, if the kept one needs earlier calls: another bug
may be among them."""


@dataclass
class NightTriage:
    """An explainer that explains every bucket of a night once, and again when a smaller case is found."""

    pool: WorkerPool
    targets: Sequence[Target]
    book: FindingBook
    position: Position
    stopping: Stopping
    limit_s: float
    """The seconds of the whole night."""
    before: Callable[[Judgement], tuple[Case, ...]]
    """A function that returns the calls before a finding."""

    elsewhere: frozenset[str] = frozenset()
    """The targets that run on other machines only."""
    explain_there: Callable[[Sequence[Bucket], float, Callable[[], bool]], None] = lambda pile, seconds, over: None
    """A function that has findings explained on other machines, within some seconds, or until it is over."""

    def __post_init__(self) -> None:
        self._explainer = Explainer(self.pool, self.targets, self.book, _BOUNDS, lambda: self.stopping.wanted)
        self._ends = 0.0

    def explain_one(self) -> bool:
        """Explain one of the waiting buckets. Return False if there is none, or no time for it."""
        waiting = [bucket for bucket in self.book.buckets.values() if self._waits(bucket)]
        if not waiting:
            return False
        spent = self.position.earlier_triage_s + self.position.triage_s
        left = min(sharing.TRIAGE_SHARE * self.limit_s - spent, sharing.TRIAGE_SHARE * self.stopping.left)
        seconds = min(SECONDS, left / len(waiting))
        if seconds < _LEAST_S:
            return False
        began = time.monotonic()
        self._ends = began + seconds
        # A fault in shared source is explained at the kernel nearest to it; the failures of other kernels follow from
        # it.
        first = min(waiting, key=lambda bucket: len(self._explainer.within(bucket)))
        first.pending = False  # even if it cannot be explained, it is not tried again
        with contextlib.suppress(OutOfTimeError):
            self._explain(first)
        self.position.triage_s += time.monotonic() - began
        return True

    def _waits(self, bucket: Bucket) -> bool:
        is_there = bucket.target in self.elsewhere and bucket.finding is None
        return bucket.pending and bucket.written and not is_there

    def reproduce(self, file: Kept) -> Judgement | None:
        """Return the judgement of a kept case after its calls, in a new process; None if its target does not run."""
        found = file.found
        if found is None or found.target not in self.book.targets:
            return None
        target = self.book.targets[found.target]
        with WorkerPool([target], bounded=False) as pool:
            seen = reproduced(pool, {target.id: target}, file.case, found.law, found.history).get(target.id)
        return seen.judgement if seen is not None else None

    def waiting(self) -> set[tuple[str, str]]:
        """Return the findings, by target and case, whose earlier calls may still be needed."""
        found = [bucket.finding for bucket in self.book.buckets.values() if bucket.pending]
        return {(finding.target, finding.judgement.case) for finding in found if finding is not None}

    def _explain(self, bucket: Bucket) -> None:
        if bucket.target in self.elsewhere:
            seconds = (self._ends - time.monotonic()) / 2  # further causes and the start of workers take as long
            self.explain_there([bucket], seconds, lambda: self.stopping.wanted)
            return
        if bucket.finding is None:
            self._explainer.recall(bucket)
        if bucket.finding is None or bucket.target not in self.book.targets:
            return
        if not bucket.is_sorted and not hangs(bucket):
            target = self.book.targets[bucket.target]
            with WorkerPool([target], bounded=False) as pool:
                trial = FreshProcess(pool, target, bucket.case, bucket.judgement)
                calls = self.before(bucket.judgement)
                found = recognise(
                    self._in_time(trial.fails), bucket.case, calls, trial.unsteady, trial.later, trial.first
                )
            if found.need is not Need.NOTHING:
                self._keep_need(bucket, found)
                return
        self._explainer.explain(bucket, self._ends)

    def _in_time(self, fails: Fails) -> Fails:
        """Return the function `fails` made to raise OutOfTimeError once the time is over."""

        def asked(history: Sequence[Case]) -> bool:
            if self._over():
                raise OutOfTimeError
            return fails(history)

        return asked

    def _over(self) -> bool:
        return self.stopping.wanted or time.monotonic() > self._ends

    def _keep_need(self, bucket: Bucket, found: Recognised) -> None:
        """Put all findings of a kernel that need earlier calls into one bucket, even if they fail differently: a kernel
        that keeps state may break values and laws alike. Findings that also fail alone go to a bucket of their own."""
        alone = self._alone(bucket)
        if alone:
            self.book.open(bucket, alone)
        kept = [each for each in self.book.buckets.values() if each.kernel == bucket.kernel and each is not bucket]
        same = [each for each in kept if not each.alone]
        if same:
            self.book.merge(bucket, same[0])
        else:
            self.book.note_need(bucket, found)

    def _alone(self, bucket: Bucket) -> list[Finding]:
        """Return the findings besides the kept one that fail alone, as far as there is time to try them."""
        others = [finding for finding in bucket.pile.findings if finding.case is not bucket.case]
        Random(0).shuffle(others)  # by size, the time would be over before a bug of long rows is tried
        until = time.monotonic() + _TRYING_ALONE * (self._ends - time.monotonic())
        found = []
        with ExitStack() as stack:
            pools: dict[str, WorkerPool] = {}
            for each in others:
                if self._over() or time.monotonic() > until:
                    break
                target = self.book.targets[each.target]
                if target.id not in pools:
                    pools[target.id] = stack.enter_context(WorkerPool([target], bounded=False))
                if FreshProcess(pools[target.id], target, each.case, each.judgement).fails():
                    found.append(each)
        return found
