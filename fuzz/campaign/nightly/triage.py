"""Explaining what a night has found, within its share of the night."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random

from fuzz.campaign.corpus.folder import Kept
from fuzz.campaign.nightly.opening import TRIAGE_SHARE
from fuzz.campaign.search.deadline import Stopping
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judgement
from fuzz.explain.attribute.history import Fails, Need, Recognised, recognise
from fuzz.explain.diagnosis import SECONDS, TimeShares
from fuzz.explain.finding import Finding
from fuzz.explain.trial.trial import FreshProcess, OutOfTimeError, replayed
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket, hangs
from fuzz.findings.explainer import Explainer
from fuzz.findings.store import Position

_LEAST_S = 2.0
"""With less time for a bucket than this, its explanation is not begun. Chosen."""
_BOUNDS = TimeShares(least_s=_LEAST_S * 2 / 3, one_cause=0.75, later=True)
_TRYING_ALONE = 0.3
"""The share of a bucket's time for running its other findings alone, where the kept one needs earlier calls: another
bug may be among them."""


@dataclass
class NightTriage:
    """Explains every bucket once, and again when a smaller case is found."""

    pool: WorkerPool
    targets: Sequence[Target]
    book: FindingBook
    position: Position
    stopping: Stopping
    limit_s: float
    """The seconds of the whole night."""
    before: Callable[[Judgement], tuple[Case, ...]]
    """Returns the calls before a finding."""

    elsewhere: frozenset[str] = frozenset()
    """The targets that run on other machines alone."""
    explain_there: Callable[[Sequence[Bucket], float, Callable[[], bool]], None] = lambda pile, seconds, over: None
    """Has findings of other machines explained there, in that many seconds, unless it is over before."""

    def __post_init__(self) -> None:
        self._explainer = Explainer(self.pool, self.targets, self.book, _BOUNDS, lambda: self.stopping.wanted)
        self._ends = 0.0

    def explain_one(self) -> bool:
        """Explain one of the waiting buckets. Returns False where there is none, or no time for it."""
        waiting = [bucket for bucket in self.book.buckets.values() if self._waits(bucket)]
        if not waiting:
            return False
        spent = self.position.earlier_triage_s + self.position.triage_s
        left = min(TRIAGE_SHARE * self.limit_s - spent, TRIAGE_SHARE * self.stopping.left)
        seconds = min(SECONDS, left / len(waiting))
        if seconds < _LEAST_S:
            return False
        began = time.monotonic()
        self._ends = began + seconds
        # A fault in a source is explained at the kernel nearest to it; failures of others are told apart by that.
        first = min(waiting, key=lambda bucket: len(self._explainer.within(bucket)))
        first.pending = False  # whatever the result: what cannot be explained is not tried over and over
        with contextlib.suppress(OutOfTimeError):
            self._explain(first)
        self.position.triage_s += time.monotonic() - began
        return True

    def _waits(self, bucket: Bucket) -> bool:
        is_there = bucket.target in self.elsewhere and bucket.finding is None
        return bucket.pending and bucket.written and not is_there

    def replay_history(self, file: Kept) -> Judgement | None:
        """Return the judgement of a kept case after its calls, in a new process; None where its target does not run."""
        found = file.found
        if found is None or found.target not in self.book.targets:
            return None
        target = self.book.targets[found.target]
        with WorkerPool([target], bounded=False) as pool:
            seen = replayed(pool, {target.id: target}, file.case, found.law, found.history).get(target.id)
        return seen.judgement if seen is not None else None

    def waiting(self) -> set[tuple[str, str]]:
        """Return the findings whose earlier calls may be asked for."""
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
                found = recognise(self._in_time(trial.fails), bucket.case, calls, trial.unsteady)
            if found.need is not Need.NOTHING:
                self._keep_need(bucket, found)
                return
        self._explainer.explain(bucket, self._ends)

    def _in_time(self, fails: Fails) -> Fails:
        """Return the question made to raise OutOfTimeError once the time is over."""

        def asked(history: Sequence[Case]) -> bool:
            if self._over():
                raise OutOfTimeError
            return fails(history)

        return asked

    def _over(self) -> bool:
        return self.stopping.wanted or time.monotonic() > self._ends

    def _keep_need(self, bucket: Bucket, found: Recognised) -> None:
        """Put all findings of a kernel that need earlier calls into one bucket, however they fail: a state that is kept
        breaks values and laws alike. A finding that also fails by itself goes to a bucket of its own."""
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
        """Return the findings, except the kept one, that fail by themselves, as far as there is time."""
        others = [finding for finding in bucket.pile.findings if finding.case is not bucket.case]
        Random(0).shuffle(others)  # in order of size, time would be over before a bug of long rows is tried
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
