"""Explaining the findings of a night, within their share of its time."""

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
        left = min(TRIAGE_SHARE * self.limit_s - spent, TRIAGE_SHARE * self.stopping.left)
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

    def replay_history(self, file: Kept) -> Judgement | None:
        """Return the judgement of a kept case after its calls, in a new process; None if its target does not run."""
        found = file.found
        if found is None or found.target not in self.book.targets:
            return None
        target = self.book.targets[found.target]
        with WorkerPool([target], bounded=False) as pool:
            seen = replayed(pool, {target.id: target}, file.case, found.law, found.history).get(target.id)
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
                found = recognise(self._in_time(trial.fails), bucket.case, calls, trial.unsteady)
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
