"""The counts of a session, by target and in all, with err/budget by row length; and what observes them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import THREADS, Case
from fuzz.core.base.feature import Feature, Label
from fuzz.core.base.probe import probe_of
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Wait
from fuzz.core.execute.corners import CornerCounts
from fuzz.core.generate.conditions import Together, conditions_of
from fuzz.core.generate.coverage import Ledger
from fuzz.core.generate.pairing import PairCoverage, held
from fuzz.core.generate.turn import is_proposed
from fuzz.core.judge.judge import Judgement
from oracles.budget import CONFIDENCE
from oracles.dtypes import FORMATS, ITEMSIZE, form
from oracles.formula.contract import WIDE, Contract, widest
from oracles.operand import AXIS
from oracles.ops import OPS
from oracles.summation import Sequential, Summation

BINS_PER_OCTAVE = 4
_REST = 4.0
"""The roundings other than those of the sum, in units of the unit roundoff: mean, eps, root and multiplications."""


@dataclass(frozen=True)
class Point:
    """The group of an accuracy: a target, a dtype, rows of about one length, and the budget that judged them."""

    target: str
    dtype: str
    bin: int
    worst_case: bool


@dataclass(frozen=True)
class WorstRun:
    """The passing run with the worst err/budget in one group, and the number of runs in the group."""

    n: int
    ratio: float
    climb: float
    where: str
    runs: int = 1

    def joined(self, other: WorstRun) -> WorstRun:
        """Return the worse of the two runs, with the number of both groups."""
        worse = other if other.ratio > self.ratio else self
        return WorstRun(worse.n, worse.ratio, worse.climb, worse.where, self.runs + other.runs)


def whereabouts(case: Case) -> str:
    """Return a few words about a case: the shape of its first input and the recipe, such as '3x1041 spike'."""
    tensor = next(iter(case.inputs.values()))
    shape = "x".join(str(extent) for extent in tensor.layout.shape)
    return f"{shape} {case.origin.recipe}"


def accuracy_of(case: Case, judgement: Judgement, contract: Contract) -> tuple[Point, WorstRun] | None:
    """Return the group and the record of a passing run; None if no value was compared, or if it has no row."""
    main = case.inputs[OPS[case.op].main]
    n = main.layout.shape[int(case.params[AXIS])] if main.layout.shape else 1
    if judgement.worst is None or n == 0:
        return None
    worst_case = case.structured or coarse(contract, main.dtype)
    point = Point(judgement.target, main.dtype, math.floor(BINS_PER_OCTAVE * math.log2(n)), worst_case)
    return point, WorstRun(n, judgement.ratio, climb(contract, n, main.dtype), whereabouts(case))


@lru_cache(maxsize=4096)
def coarse(contract: Contract, dtype: str) -> bool:
    """Whether inputs have fewer bits than the accumulator. Such inputs are always judged by the worst-case budget."""
    return form(dtype).precision < form(_sum(contract, dtype)[0]).precision


def _sum(contract: Contract, dtype: str) -> tuple[str, Summation]:
    """Return the dtype and order of the sums along rows; if there are several kinds, those of the first."""
    compute = widest([dtype]) if contract.compute == WIDE else contract.compute
    return compute if compute in FORMATS else dtype, next(iter(contract.sums.values()), Sequential())


@lru_cache(maxsize=65536)
def climb(contract: Contract, n: int, dtype: str) -> float:
    """Return the worst-case budget divided by the sqrt(n) budget, for the reciprocal root of a row of length n; at
    least 1. The chart uses it to show results of both budgets on one axis."""
    accumulate, summation = _sum(contract, dtype)
    u = form(accumulate).u
    chain = summation.chain(n) + 1
    worst = math.expm1(min(chain * math.log1p(u), 700.0))
    likely = min(CONFIDENCE * math.sqrt(chain) * u + chain * u * u, worst)
    return (worst / 2 + _REST * u) / (likely / 2 + _REST * u)


@dataclass(frozen=True)
class Sighting:
    """A failing case with all its failing judgements, as it was first seen."""

    case: Case
    """The failing case; for a broken law, the case from which the twin was made."""
    judgements: Sequence[Judgement]
    """The failing judgements."""
    verdicts: Mapping[str, str]
    """The verdicts of all targets on the case."""


class Observer(Protocol):
    """Is called with what is judged. By default it does nothing."""

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """Note the judgements of one case on all targets, if this process judged it."""
        return

    def counted(self, more: Tally) -> None:
        """Note what was judged since the last call, in this process or another one."""
        return

    def failed(self, kernel: str, case: Case, judgement: Judgement, elapsed: float) -> None:
        """Note a failing run, `elapsed` seconds after the start."""
        return

    def progress(self, elapsed: float) -> None:
        """Note that the counts are complete, `elapsed` seconds after the start."""
        return

    def waiting(self, waits: Sequence[Wait], elapsed: float) -> None:
        """Note the calls that are waited for, several times a second while a batch runs."""
        return


@dataclass(frozen=True)
class WorstPass:
    """The largest err/budget of passing runs, and the case where it was seen."""

    ratio: float
    where: str


@dataclass(frozen=True)
class Largest:
    """The largest extent, rows (the product of all extents but the last) and elements of a tensor among judged cases.
    Each may be from another case."""

    extent: int = 0
    rows: int = 0
    elements: int = 0

    def joined(self, other: Largest) -> Largest:
        """Return the larger of each number."""
        both = max(self.extent, other.extent), max(self.rows, other.rows), max(self.elements, other.elements)
        return Largest(*both)


def largest_of(case: Case) -> tuple[str, Largest]:
    """Return the dtype of a case's first input, and the largest extent, rows and elements of all its tensors."""
    shapes = [each.layout.shape for each in case.tensors.values()]
    extent = max((max(shape, default=1) for shape in shapes), default=1)
    rows = max((math.prod(shape[:-1]) for shape in shapes), default=1)
    return next(iter(case.inputs.values())).dtype, Largest(extent, rows, max(map(math.prod, shapes), default=1))


NO_TURN = "the search ended before its op had a turn"
LATE = "it is slow, and the search ended before it had a turn"


_ENOUGH = 4
"""The number of cases in a dtype from which on an undecided output is reported: in fewer, all may be NaN by chance, for
example single elements of a recipe with NaN. Chosen."""
Decided = dict[tuple[str, str], int]
"""By output and dtype of the first input: the number of cases in which a wrong value of the output could not have been
seen, or 0 if it could in at least one case."""


SAME, OTHER = "same", "other"
"""The bits of a configuration, beside those of the first one."""


@dataclass
class TargetTally:
    """The counts of one target."""

    target: str
    kernel: str
    judged: int = 0
    """The number of runs with a verdict other than NOT_RUN."""
    findings: int = 0
    gave_up: int = 0
    not_run: int = 0
    worst: dict[str, WorstPass] = field(default_factory=dict)
    """The worst passing runs by dtype. They are separate, since the rounding of a 16-bit output alone brings err/budget
    close to 1."""
    twins: Counter[str] = field(default_factory=Counter)
    """The number of judged twins, by law that the kernel declares."""
    not_run_reason: str = ""
    broken: str = ""
    """The reason why the kernel cannot be built, started, or called as declared; '' if it can."""
    undecided: str = ""
    """The last case on which the oracle gave up: OP:SHARD:NUMBER, which `repro` takes after the search's seed."""
    decided: Decided = field(default_factory=dict)
    alike: Counter[str] = field(default_factory=Counter)
    """In a further configuration of a kernel: the number of passing runs with the same bits as in its first one, and
    with others."""
    axes: dict[str, Counter[str]] = field(default_factory=dict)
    """In how many judged runs each axis had each value, where somebody asks for it; see `fuzz.findings.axes`."""
    first: int = 0
    """The number of judged runs up to the first failing one, itself included; 0 if none failed."""
    failed: dict[str, float] = field(default_factory=dict)
    """The largest err/budget of failing runs whose values were compared, by dtype."""

    def count(self, case: Case, judgement: Judgement) -> None:
        """Count one judgement."""
        if judgement.is_misuse:
            self.not_run_reason = self.broken = judgement.reason
            return
        if judgement.verdict is Verdict.NOT_RUN:
            self.not_run += 1
            self.not_run_reason = judgement.reason
            return
        self.judged += 1
        dtype = next(iter(case.inputs.values())).dtype
        if judgement.verdict is not Verdict.PASS and judgement.verdict.is_finding:
            self.findings, self.first = self.findings + 1, self.first or self.judged
            if judgement.worst is not None:
                self.failed[dtype] = max(judgement.ratio, self.failed.get(dtype, 0.0))
        elif judgement.verdict is Verdict.ORACLE_GAVE_UP:
            self.gave_up += 1
            if case.origin.name and not is_proposed(case.origin):
                self.undecided = f"{case.op}:{case.origin.name}"
        elif judgement.worst is not None:
            known = self.worst.get(dtype)
            if known is None or judgement.ratio > known.ratio:
                self.worst[dtype] = WorstPass(judgement.ratio, whereabouts(case))

    def add(self, later: TargetTally) -> None:
        """Add the counts of a later tally."""
        self.first = self.first or (self.judged + later.first if later.first else 0)
        self.failed |= {dtype: max(ratio, self.failed.get(dtype, 0.0)) for dtype, ratio in later.failed.items()}
        self.judged += later.judged
        self.findings += later.findings
        self.gave_up += later.gave_up
        self.not_run += later.not_run
        self.twins.update(later.twins)
        self.not_run_reason = later.not_run_reason or self.not_run_reason
        self.broken = later.broken or self.broken
        self.undecided = later.undecided or self.undecided
        note_open(self.decided, later.decided)
        self.alike.update(later.alike)
        self.note_axes(later.axes)
        for dtype, worst in later.worst.items():
            if dtype not in self.worst or worst.ratio > self.worst[dtype].ratio:
                self.worst[dtype] = worst

    def note_axes(self, values: Mapping[str, Iterable[str]]) -> None:
        """Count the values of a case, or of many, on each axis."""
        for name, found in values.items():
            self.axes.setdefault(name, Counter()).update(found)


@dataclass
class Tally:
    """The counts of a session, or of a part of it, for all targets. Tallies of parts can be added."""

    targets: dict[str, TargetTally] = field(default_factory=dict)
    cases: int = 0
    known: int = 0
    """The number of given cases, which were not drawn; a limit of cases does not count them."""
    laws: Counter[str] = field(default_factory=Counter)
    """The number of comparisons, by law."""
    visits: dict[str, Counter[Label]] = field(default_factory=dict)
    """The number of visits of judged cases to each label, by op."""
    accuracy: dict[Point, WorstRun] | None = None
    """The worst passing runs by row length; None if they are not wanted."""
    together: dict[str, Together] = field(default_factory=dict)
    """The pairs of conditions that held together in judged cases, by op."""
    largest: dict[str, Largest] = field(default_factory=dict)
    """The largest extents, rows and elements of judged cases, by the dtype of the first input."""
    threads: int = 0
    """The most processor threads that a call could use; 0 if unknown."""
    never: tuple[str, ...] = ()
    """The ways of calling in which the targets are never called, such as "autograd"."""
    notes_axes: bool = False
    """Whether the values of axes are counted."""
    corners: Mapping[str, CornerCounts] = field(default_factory=dict)
    """The corners that the targets can visit, by op; those without a visit are coverage gaps."""

    def count(self, case: Case, judgements: Sequence[Judgement], targets: Mapping[str, Target]) -> None:
        """Count one case with its judgements on all targets."""
        self.cases += 1
        ran = list[Label]()
        probe = probe_of(case)
        axes = self._axes_of(case) if any(each.verdict is not Verdict.NOT_RUN for each in judgements) else {}
        for judgement in judgements:
            target = targets[judgement.target]
            line = self.targets.get(target.id)
            if line is None:
                line = self.targets[target.id] = TargetTally(target.id, target.kernel.name)
            line.count(case, judgement)
            if judgement.verdict is Verdict.NOT_RUN:
                continue
            ran.append((Feature("target"), target.id))
            if not probe or probe in target.kernel.laws:
                line.note_axes(axes)
            if judgement.law is not None and judgement.law.name in target.kernel.laws:
                line.twins[judgement.law.name] += 1
            known, passes = self.accuracy, judgement.verdict is Verdict.PASS
            if known is not None and passes and (found := accuracy_of(case, judgement, target.contract)) is not None:
                point, worst = found
                known[point] = known[point].joined(worst) if point in known else worst
        if ran:
            self.note_largest(*largest_of(case))
            self.threads = max(self.threads, int(case.params.get(THREADS, 0)))
            self.visits.setdefault(case.op, Counter()).update((*case.origin.labels, *ran))
            self.together.setdefault(case.op, Together()).see(conditions_of(case.op).holding(case.origin.labels))

    def add(self, later: Tally) -> None:
        """Add the counts of a later tally."""
        self.cases += later.cases
        self.known += later.known
        self.laws.update(later.laws)
        for name, line in later.targets.items():
            self.targets.setdefault(name, TargetTally(name, line.kernel)).add(line)
        for op, visits in later.visits.items():
            self.visits.setdefault(op, Counter()).update(visits)
        self.threads = max(self.threads, later.threads)
        for dtype, largest in later.largest.items():
            self.note_largest(dtype, largest)
        for op, together in later.together.items():
            self.together.setdefault(op, Together()).add(together)

    def _axes_of(self, case: Case) -> Mapping[str, Iterable[str]]:
        if not self.notes_axes:
            return {}
        from fuzz.findings.axes import values_of

        return values_of(case)

    def note_largest(self, dtype: str, found: Largest) -> None:
        """Note the largest extent, rows and elements of a judged case."""
        known = self.largest.get(dtype)
        self.largest[dtype] = found if known is None else known.joined(found)

    @property
    def coverage(self) -> Mapping[str, Ledger]:
        """The visits of judged cases among all that the targets can visit, by op."""
        found = {}
        for op, visits in self.visits.items():
            found[op] = ledger = Ledger(self.corners.get(op, CornerCounts()).space)
            ledger.see(visits)
            for (kind, value), count in visits.items():
                if kind in ledger.counts:
                    ledger.counts[kind][value] = count
        return found

    def pairs(self) -> Mapping[str, PairCoverage]:
        """Return the possible pairs of conditions and those that never held together, by op. This is slow."""
        return {op: held(self.corners.get(op, CornerCounts()).capabilities, each) for op, each in self.together.items()}

    @property
    def judged(self) -> int:
        """The number of judged runs; a run is one case on one target."""
        return sum(target.judged for target in self.targets.values())

    @property
    def not_run(self) -> int:
        """The number of runs that were given to a target and got no verdict."""
        return sum(target.not_run for target in self.targets.values())

    def note_waiting(self) -> None:
        """Note for each target whose op was never searched why it judged nothing."""
        unseen = (of_op for op, of_op in self.corners.items() if op not in self.visits)
        waiting = {name for of_op in unseen for name in of_op.space[Feature("target")]}
        for name, line in self.targets.items():
            if name in waiting and not line.not_run_reason:
                line.not_run_reason = NO_TURN

    @property
    def findings(self) -> int:
        return sum(target.findings for target in self.targets.values())

    @property
    def gave_up(self) -> int:
        return sum(target.gave_up for target in self.targets.values())


def note_open(known: Decided, later: Mapping[tuple[str, str], int]) -> None:
    """Add the numbers of cases in which no wrong value could be seen; one case in which it could makes the sum 0."""
    for key, count in later.items():
        known[key] = 0 if 0 in (count, known.get(key)) else known.get(key, 0) + count


def never_decided(decided: Decided) -> list[str]:
    """Return the outputs that no case could decide, and those that no case of some dtype could, given enough cases."""
    seen = {output for (output, _), count in decided.items() if not count}
    found = [
        f"{output} in {dtype}" if output in seen else output
        for (output, dtype), count in decided.items()
        if count and (output not in seen or count >= _ENOUGH)
    ]
    return [*dict.fromkeys(found)]


def widest_first(dtypes: Iterable[str]) -> tuple[str, ...]:
    """Return the dtypes, the largest first."""
    return tuple(sorted(dtypes, key=lambda dtype: (-ITEMSIZE[dtype], dtype)))
