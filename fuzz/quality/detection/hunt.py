"""One correct kernel and its planted bugs under every way to test: which of them each one finds, and how soon."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice

import numpy as np

from fuzz.adapters.pack import Pack
from fuzz.adapters.registry import expand
from fuzz.adapters.target import NotRun, Target
from fuzz.base.errors import InternalError, UsageError
from fuzz.base.kernel import Kernel, Mutant
from fuzz.base.outcome import Outcome, Status
from fuzz.execute.pool import WorkerPool
from fuzz.judge.judge import EntryJudge, Judge
from fuzz.laws.registry import declared
from fuzz.quality.detection.ways import Trial, Way, Wrong
from fuzz.uses.search.schedule import one_by_one
from fuzz.uses.search.turn_runner import Task, Terms, TurnRunner
from oracles.doubledouble import head
from oracles.enclosure import compare
from oracles.rounding import round_to

OURS = "kernelfuzz"
_TOGETHER = 4
"""The number of cases that are sent to the workers at a time."""


@dataclass(frozen=True)
class Seen:
    """What one way says of one kernel."""

    way: str
    kernel: str
    op: str
    right: bool
    """Whether it is the correct one: then it must not be accused."""
    accused: bool
    cases: int
    """The number of cases until it was accused, or in all; 0 where the way has no test of the op."""
    seconds: float
    """The seconds until then, of this kernel and those beside it."""


@dataclass(frozen=True)
class Limits:
    """How far it goes."""

    seed: int
    max_cases: int
    """The most cases of our search."""
    max_time: float
    """The most seconds that one way has for one correct kernel and its planted bugs."""
    least: int = 200
    """The correct kernel is searched for so many cases at least, whatever was found in the others."""


@dataclass
class _Tally:
    """What is known of the kernels under one way."""

    way: str
    right: Target
    wrong: Sequence[Target]
    cases: int = 0
    found: dict[str, tuple[int, float]] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def is_done(self) -> bool:
        return all(target.id in self.found for target in self.wrong)

    def count(self, accused: Callable[[Target], bool], ran: Callable[[Target], bool]) -> None:
        """One case more. What the correct kernel is accused of as well says nothing of the others."""
        if not ran(self.right):
            return
        self.cases += 1
        if accused(self.right):
            self._note(self.right)
            return
        for target in self.wrong:
            if target.id not in self.found and ran(target) and accused(target):
                self._note(target)

    def _note(self, target: Target) -> None:
        self.found.setdefault(target.id, (self.cases, self.seconds))

    def seen(self) -> Iterator[Seen]:
        for target in (self.right, *self.wrong):
            cases, seconds = self.found.get(target.id, (self.cases, self.seconds))
            yield Seen(self.way, target.kernel.name, target.kernel.op, target is self.right, target.id in self.found,
                       cases, round(seconds, 3))  # fmt: skip


def hunted(pack: Pack, base: str, mutants: Sequence[Mutant], ways: Iterable[Way], limits: Limits) -> list[Seen]:
    """What every way says of a correct kernel and its planted bugs. Raises UsageError where it cannot run here."""
    right, wrong = _targets(pack, base, mutants)
    everyone, found = (right, *wrong), list[Seen]()
    with WorkerPool(everyone, jobs=1) as pool:
        missing = [each for each in everyone if isinstance(pool.statuses[each.id], NotRun)]
        if missing:
            raise UsageError(f"{missing[0].id}: does not run here: {pool.statuses[missing[0].id]}")
        found += _searched(pool, right, wrong, limits).seen()
    with WorkerPool(everyone, jobs=1, bounded=False) as pool:  # tests of others have large cases for slow targets too
        for way in ways:
            found += _tested(pool, right, wrong, way, limits).seen()
    return found


def _targets(pack: Pack, base: str, mutants: Sequence[Mutant]) -> tuple[Target, list[Target]]:
    """One target for the correct kernel, and the same one for each planted bug that must be found there."""
    kernel = pack.kernel(base)
    here = [target for target in expand([kernel]) if target.unavailable() is None]
    for target in here:
        planted = [_planted(mutant, kernel, target) for mutant in mutants]
        if all(planted):
            return target, [each for each in planted if each is not None]
    raise UsageError(f"{base}: no target runs here on which all of its planted bugs must be found")


def _planted(mutant: Mutant, kernel: Kernel, like: Target) -> Target | None:
    changed = mutant.apply(kernel)
    for target, of_base in zip(expand([changed]), expand([kernel]), strict=True):
        if of_base.id == like.id and any(fnmatchcase(target.id, pattern) for pattern in mutant.targets):
            return target
    return None


def _searched(pool: WorkerPool, right: Target, wrong: Sequence[Target], limits: Limits) -> _Tally:
    """The search of this tool, as `kernelfuzz run` makes it."""
    tally, kernel = _Tally(OURS, right, wrong), right.kernel

    def see(judge: EntryJudge) -> None:
        tally.count(lambda target: judge.judge(target).verdict.is_finding, lambda target: target.id in judge.outcomes)

    everyone = (right, *wrong)
    terms = Terms([kernel], declared([kernel]), ([each.id for each in everyone],))
    runner = _Sparing(pool, everyone, terms, see)
    runner.found = tally.found.keys()
    for _ in one_by_one(runner, kernel.op, limits.seed, limits.max_cases):
        if tally.seconds > limits.max_time or (tally.is_done and tally.cases >= limits.least):
            break
    return tally


class _Sparing(TurnRunner):
    """Gives no more cases to what is found: the oracle confirms each failure, which takes it long."""

    found: Collection[str] = ()

    def begin(self, *tasks: Task) -> None:
        super().begin(*(replace(each, resting=tuple(self.found)) for each in tasks))


def _tested(pool: WorkerPool, right: Target, wrong: Sequence[Target], way: Way, limits: Limits) -> _Tally:
    """The test of somebody else."""
    tally = _Tally(way.name, right, wrong)
    trials = iter(way.trials(right.kernel, limits.seed))
    while tally.seconds <= limits.max_time and (some := list(islice(trials, _TOGETHER))):
        outcomes = pool.submit([each.case for each in some]).outcomes()
        for trial, ran in zip(some, outcomes, strict=True):
            verdicts = _Verdicts(trial, ran)
            tally.count(verdicts.accuse, verdicts.ran)
    return tally


class _Verdicts:
    """What a test says of kernels on one case."""

    def __init__(self, trial: Trial, outcomes: Mapping[str, Outcome]) -> None:
        self._trial, self._outcomes = trial, outcomes
        self._judge = Judge(trial.case, confirms=False)

    def ran(self, target: Target) -> bool:
        """Whether it was given the case. Raises InternalError for an error of ours, and UsageError for a kernel that
        cannot be called as it is declared."""
        outcome = self._outcomes.get(target.id)
        if outcome is not None and outcome.status is Status.OURS:
            raise InternalError(f"{target.id}: {outcome.detail}")
        if outcome is not None and outcome.status is Status.MISUSED:
            raise UsageError(f"{target.id}: {outcome.detail}")
        return outcome is not None and outcome.status is not Status.NOT_RUN

    def accuse(self, target: Target) -> bool:
        """Whether the test fails. What a call does beside its outputs is seen by this tool alone; a call that does not
        return fails every test."""
        outcome, wrong = self._outcomes[target.id], self._trial.wrong
        if wrong is None:
            return self._judge.judge(outcome, target.contract).verdict.is_finding
        if outcome.status is not Status.RAN or outcome.fault is not None:
            return True
        return self._is_off(outcome, target, wrong)

    def _is_off(self, outcome: Outcome, target: Target, wrong: Wrong) -> bool:
        truth = self._judge.oracle.truth
        got = self._judge.oracle.receive(self._judge.bits(outcome)).values
        for name, each in truth.enclosures(target.contract, self._trial.case.structured).items():
            if each.places:
                failing = compare(each, got[name]).failing
            else:
                with np.errstate(all="ignore"):
                    failing = wrong(name, got[name], round_to(head(each.centre), each.form))
                failing = failing if each.unjudged is None else failing & ~each.unjudged
            if failing.any():
                return True
        return False
