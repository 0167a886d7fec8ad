"""Running a failing case again, on all targets or after given calls in a new process; judging variants of it on one
target; families: ways of failing, each a set of verdicts and, for a broken law, the law; and results that change:
whether the same call sometimes gives another result, for example because threads race."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.fill import FILL, FILLS, UNSET, ZERO, fill_of, filled
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.validity import check_case
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Pool
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.dims import CHEAP_WORK
from fuzz.core.judge.batch import asked_of, settle
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.judge.trouble import judged
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import Entry, twin_of
from fuzz.explain.explanation import UnsetRead, Unsteady
from fuzz.explain.rule.rule import Rule, Traits
from fuzz.explain.rule.traits import traits_of, twin_traits
from oracles.dtypes import ITEMSIZE

CLEAR = 2.0
"""The err/budget from which on a failure is no boundary case."""

_FAMILIES: Mapping[Verdict, str] = {
    Verdict.FAIL_NUMERIC: "values",
    Verdict.FAIL_NONFINITE: "values",
    # In memory of its own an unwritten element keeps its poison; in place it keeps the input's value, and looks wrong.
    Verdict.FAIL_UNWRITTEN: "values",
    Verdict.FAIL_LAW: "law",
    Verdict.FAIL_MEMORY: "memory",
    Verdict.FAIL_INPUT_MODIFIED: "input modified",
    Verdict.FAIL_SHAPE: "shape",
    Verdict.FAIL_DTYPE: "dtype",
    Verdict.FAIL_ACCEPTED_INVALID: "accepted invalid",
    Verdict.FAIL_PROCESS: "process",
    Verdict.CRASH: "crash",
    Verdict.TIMEOUT: "timeout",
    Verdict.REJECTED: "rejected",
}

_EXCEPTION = "exception"
"""The family of exceptions. Raising is another failure than returning wrong values."""
_CHANCE = frozenset({"values", "memory", "crash"})
_INVALID = frozenset({"accepted invalid", "memory", "crash"})
"""The families that accepting invalid input may show as: the kernel may then read or write anywhere."""


@dataclass(frozen=True)
class Family:
    """One way of failing. Verdicts that one bug may show as belong to one family."""

    name: str
    law: LawCheck | None = None
    wide: bool = False
    """Whether wrong values, stray accesses and crashes count as one way of failing: which of them a wrong index causes
    is chance."""
    clear: float = 0.0
    """The least err/budget of a failure by wrong values."""

    @classmethod
    def of(cls, judgement: Judgement) -> Family:
        """Return the family of a finding. If it fails clearly, only clear failures belong to the family."""
        numeric = judgement.verdict is Verdict.FAIL_NUMERIC
        return cls(_name(judgement), judgement.broken_law, clear=min(CLEAR, judgement.ratio) if numeric else 0.0)

    @property
    def key(self) -> str:
        """The name under which failures of one cause are collected, such as 'values' or 'law rerun'."""
        if self.law is not None:
            return f"{self.name} {self.law.name}"
        return "values" if self.name in _CHANCE else self.name

    def holds(self, judgement: Judgement) -> bool:
        """Return whether the judgement is a failure of this family that is clear enough."""
        name = _name(judgement)
        if name != self.name and not (self.wide and self._may_show_as(name)):
            return False
        if self.law is not None:
            return judgement.law is not None and judgement.law.name == self.law.name
        return judgement.verdict is not Verdict.FAIL_NUMERIC or judgement.ratio >= self.clear

    def _may_show_as(self, name: str) -> bool:
        """Return whether a failure of this family may by chance show as one of that name."""
        return {name, self.name} <= (_CHANCE if self.name in _CHANCE else _INVALID)


def _name(judgement: Judgement) -> str:
    """Return the name of a failure's family; '' for no failure."""
    return _EXCEPTION if judgement.raised else _FAMILIES.get(judgement.verdict, "")


class OutOfTimeError(Exception):
    """The time for explaining a finding is over; what is known by then must do."""


class KeepsStateError(Exception):
    """A case has another result in a new process than in a worker: the kernel keeps state from call to call."""


@dataclass(frozen=True)
class Observed:
    """The result of one target for a case, or for its twin if only the twin breaks a law."""

    case: Case
    judgement: Judgement
    outcome: Outcome


def reproduced(
    pool: Pool,
    targets: Mapping[str, Target],
    case: Case,
    law: LawCheck | None,
    history: Sequence[Case] = (),
) -> dict[str, Observed]:
    """Run the calls of `history`, the case, and its twin if there is a `law`. Return the judgements, by target."""
    entries = [Entry(case)] if law is None else [Entry(case), twin_of(case, law)]
    batch = pool.submit([*history, *(entry.case for entry in entries)])
    seen: dict[str, Observed] = {}
    judge = None
    for entry, outcomes in zip(entries, batch.outcomes()[len(history) :], strict=True):
        judge = EntryJudge(entry, outcomes, judge)
        for name, outcome in outcomes.items():
            judgement, _ = judged(judge, targets[name])
            if name not in seen or (seen[name].judgement.verdict, judgement.verdict.is_finding) == (Verdict.PASS, True):
                seen[name] = Observed(judge.evidence(judgement), judgement, outcome)
    return seen


@dataclass(frozen=True)
class FreshProcess:
    """A failing case, and a pool of its one target, in which it is run again in new processes."""

    pool: WorkerPool
    target: Target
    case: Case
    finding: Judgement

    def verdict(self, history: Sequence[Case] = ()) -> Verdict:
        """Return the verdict on the case after these calls; NOT_RUN if the target is not given the case."""
        self.pool.renew()
        law = self.finding.broken_law
        seen = reproduced(self.pool, {self.target.id: self.target}, self.case, law, history)
        return seen[self.target.id].judgement.verdict if self.target.id in seen else Verdict.NOT_RUN

    def fails(self, history: Sequence[Case] = ()) -> bool:
        """Return whether the case fails after these calls as it was found; without calls, whether it fails in any
        way."""
        verdict = self.verdict(history)
        return verdict is self.finding.verdict if history else verdict.is_finding

    def first(self, calls: int) -> int:
        """Return the number of the first call that fails in a new process that makes this call so often; 0 if none
        does, or if a law is broken."""
        if self.finding.broken_law is not None:
            return 0
        self.pool.renew()
        ran = self.pool.submit([self.case] * calls).outcomes()
        judged = (EntryJudge(Entry(self.case), each).judge(self.target) for each in ran if self.target.id in each)
        return next((number for number, each in enumerate(judged, 1) if each.verdict is self.finding.verdict), 0)

    def later(self, seconds: float) -> bool:
        """Return whether the case passes in a new process, and fails as it was found when called again that much
        later."""
        if self.verdict() is not Verdict.PASS:
            return False
        time.sleep(seconds)
        seen = reproduced(self.pool, {self.target.id: self.target}, self.case, self.finding.broken_law)
        return self.target.id in seen and seen[self.target.id].judgement.verdict is self.finding.verdict

    def unsteady(self) -> Unsteady | None:
        """Return how the result of the case varies from call to call by chance; None if it does not."""
        return unsteady(self.pool, self.target, self.case, beside=self.target.shares)


@dataclass
class Trials:
    """Judges variants of a case on `target`, whose worker is in `pool`, and runs each only once.

    Hundreds of variants are judged for one that is reported. Only for that one the precise tier confirms the failure:
    see `confirmed`.
    """

    pool: Pool
    target: Target
    family: Family
    out_of_time: Callable[[], bool] = lambda: False
    explained: tuple[Rule, ...] = ()
    """The rules of other findings: a failure that one of them covers proves nothing about this finding."""
    within: tuple[Trials, ...] = ()
    """Trials of other kernels whose source is part of this kernel's, and on which the finding passes: a case that fails
    on them shows another bug, in that source."""
    work: int = CHEAP_WORK
    """The most terms in a step of a probe, see `Op.work`."""
    room: int = 0
    """The number of terms that a probe may have in any case: about as many as the failing case, which may be the
    smallest that fails."""
    watch: Callable[[Case], None] = lambda case: None
    """A function that is called with each smaller failing case."""
    fresh: bool = False
    """Whether each case runs in a new process: if a kernel keeps state, an earlier case could make a later one fail, or
    hide its failure."""
    runs: int = 0
    known: dict[str, Judgement | None] = field(default_factory=dict)
    """The judgements, by the digest of the case; None if the target did not run the case."""

    def judge(self, cases: Sequence[Case]) -> list[Judgement | None]:
        """Return the judgement of each case, by the family's law too; None if the target does not run the case.

        Raises OutOfTimeError before new cases are run if the time is over, but never for known cases.
        """
        fresh = {case.digest: case for case in cases if case.digest not in self.known}
        if fresh and self.out_of_time():
            raise OutOfTimeError
        self.known.update(self._run(list(fresh.values())))
        return [self.known[case.digest] for case in cases]

    def fails(self, case: Case) -> bool:
        """Return whether the case fails in the way of the family."""
        return self.holds(case, self.judge([case])[0])

    def failing(self) -> list[Case]:
        """Return the judged cases that fail in the way of the family, even if by little, and that no other finding
        explains."""
        family = replace(self.family, clear=0.0, wide=True)
        held = (each.of for each in self.known.values() if each is not None and family.holds(each))
        return [case for case in held if isinstance(case, Case) and not self.is_explained(case)]

    def confirm(self, case: Case) -> None:
        """Run a judged case again in a new process. Raises KeepsStateError if the result differs.

        A broken law is not tried again, since luck may decide whether two orders of a sum round alike.
        """
        before = self.known.get(case.digest)
        if self.fresh or before is None or self.family.law is not None:
            return
        self.pool.renew()
        again = self._run([case])[case.digest]
        if again is None or self.family.holds(again) != self.family.holds(before):
            raise KeepsStateError

    def confirmed(self, case: Case) -> Judgement | None:
        """Return the judgement of a judged case, confirmed by the precise tier; None if it was not judged.

        Raises `OracleDisagreement` if the precise tier contradicts the judgement.
        """
        known = self.known.get(case.digest)
        if known is None or known.outcome is None or known.law is not None:
            return known  # a run that breaks a law has passed by itself, and passes are confirmed as in a search
        return EntryJudge(Entry(case), {self.target.id: known.outcome}).judge(self.target)

    def holds(self, case: Case, judgement: Judgement | None) -> bool:
        """Return whether the judgement of the case is the failure that is looked for, and belongs to no other
        finding."""
        if judgement is None or not self.family.holds(judgement) or self.is_explained(case):
            return False
        return not self.fail_within([case])

    def fail_within(self, cases: Sequence[Case]) -> set[str]:
        """Return the digests of the cases that fail on another kernel whose source is part of this kernel's."""
        judged = [
            (case.digest, each) for other in self.within for case, each in zip(cases, other.judge(cases), strict=True)
        ]
        return {digest for digest, judgement in judged if judgement is not None and judgement.verdict.is_finding}

    def is_explained(self, case: Case) -> bool:
        """Return whether another finding's rule covers the case."""
        if not self.explained:
            return False
        traits = self.traits(case)
        return any(rule.holds(traits) for rule in self.explained)

    def traits(self, case: Case) -> Traits:
        """Return the traits of a case on the target."""
        return traits_for(case, self.target, self.family.law)

    def _run(self, cases: Sequence[Case]) -> dict[str, Judgement | None]:
        found: dict[str, Judgement | None] = {case.digest: None for case in cases}
        entries = [entry for case in cases for entry in entries_of(case, self.target, self.family.law)]
        judges = list[EntryJudge]()
        for entry, outcomes in zip(entries, self._outcomes(entries), strict=True):
            judges.append(EntryJudge(entry, outcomes, judges[-1] if judges else None, confirms=False))
        settle(asked_of(judges, {self.target.id: self.target}))
        for judge in judges:
            if self.target.id in judge.outcomes:
                judgement = judge.judge(self.target)
                if judge.entry.check is None or judgement.law is not None:
                    _keep(found, judge.evidence(judgement), judgement, self.family)
        return found

    def _outcomes(self, entries: Sequence[Entry]) -> list[dict[str, Outcome]]:
        self.runs += len(entries)
        if not self.fresh:
            return self._collected(entries) if entries else []
        outcomes = []
        for group in _with_twins(entries):
            self.pool.renew()
            outcomes += self._collected(group)
        return outcomes

    def _collected(self, entries: Sequence[Entry]) -> list[dict[str, Outcome]]:
        return self.pool.submit([entry.case for entry in entries]).outcomes()


def _with_twins(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries in groups, each a case with the twin that must run right after it."""
    groups: list[list[Entry]] = []
    for entry in entries:
        if entry.check is None:
            groups.append([])
        groups[-1].append(entry)
    return groups


def entries_of(case: Case, target: Target, law: LawCheck | None) -> list[Entry]:
    """Return the entries to run for `case`: none if the target does not take it, two if the law makes a twin."""
    if not _is_sound(case, target):
        return []
    if law is None:
        return [Entry(case)]
    if not law.law.applies(case):
        return []
    twin = twin_of(case, law)
    return [Entry(case), twin] if target.kernel.capability.refusal(twin.case) is None else []


def _is_sound(case: Case, target: Target) -> bool:
    try:
        check_case(case)
    except CaseError:
        return False
    return target.kernel.capability.is_dispatched(case)


def _keep(found: dict[str, Judgement | None], case: Case, judgement: Judgement, family: Family) -> None:
    """Store the judgement of a case; that of its twin only if it is the failure that is looked for."""
    if judgement.verdict is Verdict.NOT_RUN:  # it tells neither of failing nor of passing
        return
    if case.digest in found and (found[case.digest] is None or family.holds(judgement)):
        found[case.digest] = judgement


def traits_for(case: Case, target: Target, law: LawCheck | None) -> Traits:
    """Return the traits of a case on a target. For a broken law these include what the law changes, but no values,
    since luck decides for which values two ways of calculating differ."""
    if law is None:
        return traits_of(case, target)
    twins = twin_traits(case, law.twin(case)) if law.law.applies(case) else {}
    return {**traits_of(case, target, values=False), **twins}


def unset_read(trials: Trials, case: Case) -> UnsetRead | None:
    """Return the unset memory that the kernel reads. Return None if the case also fails with zeros everywhere, or does
    not fail again with its own fill, or hangs, since each run would take the whole limit."""
    known = trials.known.get(case.digest)
    hangs = known is not None and known.verdict is Verdict.TIMEOUT
    if FILL in case.params or hangs:
        return None
    ours = replace(trials, out_of_time=lambda: False)
    if not _passes(ours, case, ZERO):
        return None
    kinds = [kind for kind in range(len(FILLS)) if kind != ZERO and not _passes(ours, case, kind)]
    if fill_of(case) not in kinds:
        return None
    where = tuple(each for each in UNSET if _passes(ours, case, kinds[0], [each]))
    names = list(FILLS)
    return UnsetRead(where, tuple(names[kind] for kind in kinds))


def _passes(trials: Trials, case: Case, kind: int, without: Collection[str] = ()) -> bool:
    (judgement,) = trials.judge([filled(case, kind, without)])
    return judgement is not None and judgement.verdict is Verdict.PASS


CALLS = 32
"""The number of calls: a result that changes in one call of ten is missed once in thirty times."""


_PROCESSES, _BUSY_S = 4, 1.0
"""The number of processes that make the call at the same time on a GPU, and for how many seconds: blocks run in another
order if others compete with them. A race between blocks that lost 24 of 32 runs in a search never lost one with a
single process."""


def unsteady(pool: Pool, target: Target, case: Case, *, beside: bool = False) -> Unsteady | None:
    """Return how often and where the same call gives another result by chance. Return None if it never does, if the
    call does not return, or if new processes give the same sequence of results, since then state that the kernel keeps
    decides. With `beside`, if a single process always gets the same result, several processes make the call at the same
    time; this takes seconds on a GPU, and is for failures that do not repeat."""
    if len({_results(each, case) for each in _called(pool, target, case)}) > 1:
        found = [_called_afresh(pool, target, case) for _ in range(2)]
    elif beside:
        found = _called_together(pool, target, case)
    else:
        return None
    one_by_one = [[_results(each, case) for each in seen] for seen in found]
    if all(len(set(same)) == 1 for same in zip(*one_by_one, strict=False)):
        return None
    ran = [each for seen in found for each in seen]
    return next(filter(None, (_of_output(ran, name, case) for name in case.outputs)), None)


def _called_afresh(pool: Pool, target: Target, case: Case) -> list[Outcome]:
    pool.renew()
    return _called(pool, target, case)


def _called_together(beside: Pool, target: Target, case: Case) -> list[list[Outcome]]:
    """Return the outcomes of each of several new processes, in the order of calls; the pool `beside` provides the
    watch."""

    def called(pool: Pool) -> list[Outcome]:
        pool.watch = beside.watch
        found, until = _called(pool, target, case), time.monotonic() + _BUSY_S
        while time.monotonic() < until:
            found += _called(pool, target, case)
        return found

    with ExitStack() as stack:
        pools = [stack.enter_context(WorkerPool([target], bounded=False)) for _ in range(_PROCESSES)]
        threads = stack.enter_context(ThreadPoolExecutor(_PROCESSES))
        return list(threads.map(called, pools))


def _called(pool: Pool, target: Target, case: Case) -> list[Outcome]:
    seen = [found.get(target.id) for found in pool.submit([case] * CALLS).outcomes()]
    return [each for each in seen if each is not None and each.status is Status.RAN]


def _results(ran: Outcome, case: Case) -> tuple[bytes, ...]:
    return tuple(ran.outputs[name] for name in case.outputs)


def _of_output(ran: Sequence[Outcome], output: str, case: Case) -> Unsteady | None:
    results = Counter(each.outputs[output] for each in ran)
    if len(results) < 2:
        return None
    [(usual, often)] = results.most_common(1)
    tensor = case.outputs[output]
    elements = [np.frombuffer(each, np.uint8).reshape(-1, ITEMSIZE[tensor.dtype]) for each in (usual, *results)]
    differs = np.any([(each != elements[0]).any(axis=1) for each in elements[1:]], axis=0)
    first = np.unravel_index(int(differs.argmax()), tensor.layout.shape)
    return Unsteady(
        len(ran), len(ran) - often, len(results), output, tuple(map(int, first)), int(differs.sum()), differs.size
    )
