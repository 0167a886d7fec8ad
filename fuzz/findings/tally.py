"""What a run has seen so far, per target and in all, with err/budget by row length; and who is told of it."""

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
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Wait
from fuzz.core.execute.corners import CornerCounts
from fuzz.core.generate.conditions import Together, conditions_of
from fuzz.core.generate.coverage import Ledger
from fuzz.core.generate.pairing import PairCoverage, held
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
    """Where an accuracy was seen: a target, a dtype, and rows of about one length, judged by one of the budgets."""

    target: str
    dtype: str
    bin: int
    worst_case: bool


@dataclass(frozen=True)
class WorstRun:
    """The passing run with the worst err/budget at one point, and the number of runs there."""

    n: int
    ratio: float
    climb: float
    where: str
    runs: int = 1

    def joined(self, other: WorstRun) -> WorstRun:
        """Return the worse of the two, with the runs of both."""
        worse = other if other.ratio > self.ratio else self
        return WorstRun(worse.n, worse.ratio, worse.climb, worse.where, self.runs + other.runs)


def whereabouts(case: Case) -> str:
    """Return a case in a few words, e.g. '3x1041 spike'."""
    tensor = next(iter(case.inputs.values()))
    shape = "x".join(str(extent) for extent in tensor.layout.shape)
    return f"{shape} {case.origin.recipe}"


def accuracy_of(case: Case, judgement: Judgement, contract: Contract) -> tuple[Point, WorstRun] | None:
    """Return where a passing run belongs, and the run; None where no value was compared, or there is no row."""
    main = case.inputs[OPS[case.op].main]
    n = main.layout.shape[int(case.params[AXIS])] if main.layout.shape else 1
    if judgement.worst is None or n == 0:
        return None
    worst_case = case.structured or coarse(contract, main.dtype)
    point = Point(judgement.target, main.dtype, math.floor(BINS_PER_OCTAVE * math.log2(n)), worst_case)
    return point, WorstRun(n, judgement.ratio, climb(contract, n, main.dtype), whereabouts(case))


@lru_cache(maxsize=4096)
def coarse(contract: Contract, dtype: str) -> bool:
    """Whether inputs have fewer bits than the accumulator. They are always judged by the worst case."""
    return form(dtype).precision < form(_sum(contract, dtype)[0]).precision


def _sum(contract: Contract, dtype: str) -> tuple[str, Summation]:
    """Return dtype and order of the sums along rows; where there are several kinds of them, the first that is named."""
    compute = widest([dtype]) if contract.compute == WIDE else contract.compute
    return compute if compute in FORMATS else dtype, next(iter(contract.sums.values()), Sequential())


@lru_cache(maxsize=65536)
def climb(contract: Contract, n: int, dtype: str) -> float:
    """Return the worst-case budget over the sqrt(n) budget of a row's reciprocal root; at least 1. It is for the chart
    only, where it scales results judged by one budget onto the axis of the other."""
    accumulate, summation = _sum(contract, dtype)
    u = form(accumulate).u
    chain = summation.chain(n) + 1
    worst = math.expm1(min(chain * math.log1p(u), 700.0))
    likely = min(CONFIDENCE * math.sqrt(chain) * u + chain * u * u, worst)
    return (worst / 2 + _REST * u) / (likely / 2 + _REST * u)


@dataclass(frozen=True)
class Sighting:
    """A failing case, as it was seen first."""

    case: Case
    """The case that shows it; where a law is broken, the case that the twin was made of."""
    judgements: Sequence[Judgement]
    """The judgements by which it fails."""
    verdicts: Mapping[str, str]
    """The verdicts of all targets on the case, by target."""


class Observer(Protocol):
    """Is told of what is judged. By default it does nothing."""

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """Take in one case on all targets, where it is judged in this process."""
        return

    def counted(self, more: Tally) -> None:
        """Take in what was judged since the last time, here or in another process."""
        return

    def failed(self, kernel: str, case: Case, judgement: Judgement, elapsed: float) -> None:
        """Take in a failing run, `elapsed` seconds after the start."""
        return

    def progress(self, elapsed: float) -> None:
        """Called when what was counted is complete, `elapsed` seconds after the start."""
        return

    def waiting(self, waits: Sequence[Wait], elapsed: float) -> None:
        """Called several times a second while a batch is waited for."""
        return


@dataclass(frozen=True)
class WorstPass:
    """The largest err/budget of a passing run, and where it was seen."""

    ratio: float
    where: str


@dataclass(frozen=True)
class Largest:
    """The largest numbers among judged cases, each in some case: an extent of a tensor, its rows (the product of all
    its extents but the last), and its elements."""

    extent: int = 0
    rows: int = 0
    elements: int = 0

    def joined(self, other: Largest) -> Largest:
        """Return the larger of each."""
        both = max(self.extent, other.extent), max(self.rows, other.rows), max(self.elements, other.elements)
        return Largest(*both)


def largest_of(case: Case) -> tuple[str, Largest]:
    """Return the dtype of a case's first input, and the largest of all its tensors."""
    shapes = [each.layout.shape for each in case.tensors.values()]
    extent = max((max(shape, default=1) for shape in shapes), default=1)
    rows = max((math.prod(shape[:-1]) for shape in shapes), default=1)
    return next(iter(case.inputs.values())).dtype, Largest(extent, rows, max(map(math.prod, shapes), default=1))


NO_TURN = "the search ended before its op had a turn"
LATE = "it is slow, and the search ended before it had a turn"


_ENOUGH = 4
"""With fewer cases in a dtype an output may be NaN in all of them by chance: one element, of a recipe with NaN.
Chosen."""
Decided = dict[tuple[str, str], int]
"""By output that was compared, and the dtype of the first input: the number of cases in which no wrong value of it
could have been seen, or 0 if one could in some case."""


@dataclass
class TargetTally:
    """Counts for one target."""

    target: str
    kernel: str
    judged: int = 0
    """The number of runs with a verdict other than NOT_RUN."""
    findings: int = 0
    gave_up: int = 0
    not_run: int = 0
    worst: dict[str, WorstPass] = field(default_factory=dict)
    """The worst passing runs by dtype, since a 16-bit output is dominated by its own rounding, so that its err/budget
    is always close to 1."""
    twins: Counter[str] = field(default_factory=Counter)
    """The number of judged twins, by each law that its kernel declares."""
    not_run_reason: str = ""
    broken: str = ""
    """What is known where its kernel cannot be built, started, or called as it is declared; else ''."""
    undecided: str = ""
    """The last case on which the oracle gave up: OP:SHARD:NUMBER, which `repro` takes after the search's seed."""
    decided: Decided = field(default_factory=dict)

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
        if judgement.verdict is not Verdict.PASS and judgement.verdict.is_finding:
            self.findings += 1
        elif judgement.verdict is Verdict.ORACLE_GAVE_UP:
            self.gave_up += 1
            self.undecided = f"{case.op}:{case.origin.place}" if case.origin.place else self.undecided
        elif judgement.worst is not None:
            dtype = next(iter(case.inputs.values())).dtype
            known = self.worst.get(dtype)
            if known is None or judgement.ratio > known.ratio:
                self.worst[dtype] = WorstPass(judgement.ratio, whereabouts(case))

    def add(self, later: TargetTally) -> None:
        """Count what was counted later."""
        self.judged += later.judged
        self.findings += later.findings
        self.gave_up += later.gave_up
        self.not_run += later.not_run
        self.twins.update(later.twins)
        self.not_run_reason = later.not_run_reason or self.not_run_reason
        self.broken = later.broken or self.broken
        self.undecided = later.undecided or self.undecided
        note_open(self.decided, later.decided)
        for dtype, worst in later.worst.items():
            if dtype not in self.worst or worst.ratio > self.worst[dtype].ratio:
                self.worst[dtype] = worst


@dataclass
class Tally:
    """Counts for all targets of a run, or of a part of it. The tallies of parts can be added."""

    targets: dict[str, TargetTally] = field(default_factory=dict)
    cases: int = 0
    replayed: int = 0
    """How many of the cases were given, and not drawn; a limit of cases does not count these."""
    laws: Counter[str] = field(default_factory=Counter)
    """The number of comparisons by each law."""
    visits: dict[str, Counter[Label]] = field(default_factory=dict)
    """What judged cases have visited, by op."""
    accuracy: dict[Point, WorstRun] | None = None
    """The worst passing runs by row length; None where nobody asks for them."""
    together: dict[str, Together] = field(default_factory=dict)
    """Which conditions held together in judged cases, by op."""
    largest: dict[str, Largest] = field(default_factory=dict)
    """The largest of judged cases, by the dtype of their first input."""
    threads: int = 0
    """The most processor threads that a call could use; 0 where that is not known."""
    never: tuple[str, ...] = ()
    """Other ways of calling that the targets are never called in, such as "autograd"."""
    corners: Mapping[str, CornerCounts] = field(default_factory=dict)
    """What the targets can visit, by op; what of it was not visited is a coverage gap."""

    def count(self, case: Case, judgements: Sequence[Judgement], targets: Mapping[str, Target]) -> None:
        """Count one case on all targets."""
        self.cases += 1
        ran = list[Label]()
        for judgement in judgements:
            target = targets[judgement.target]
            line = self.targets.get(target.id)
            if line is None:
                line = self.targets[target.id] = TargetTally(target.id, target.kernel.name)
            line.count(case, judgement)
            if judgement.verdict is Verdict.NOT_RUN:
                continue
            ran.append((Feature("target"), target.id))
            if judgement.law is not None and judgement.law.name in target.kernel.laws:
                line.twins[judgement.law.name] += 1
            if self.accuracy is not None and judgement.verdict is Verdict.PASS:
                self._note_accuracy(accuracy_of(case, judgement, target.contract))
        if ran:
            self.note_largest(*largest_of(case))
            self.threads = max(self.threads, int(case.params.get(THREADS, 0)))
            self.visits.setdefault(case.op, Counter()).update((*case.origin.labels, *ran))
            self.together.setdefault(case.op, Together()).see(conditions_of(case.op).holding(case.origin.labels))

    def add(self, later: Tally) -> None:
        """Count what was counted later."""
        self.cases += later.cases
        self.replayed += later.replayed
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

    def note_largest(self, dtype: str, found: Largest) -> None:
        """Count the largest of a case that was judged."""
        known = self.largest.get(dtype)
        self.largest[dtype] = found if known is None else known.joined(found)

    def _note_accuracy(self, found: tuple[Point, WorstRun] | None) -> None:
        if found is not None and self.accuracy is not None:
            point, worst = found
            self.accuracy[point] = self.accuracy[point].joined(worst) if point in self.accuracy else worst

    @property
    def coverage(self) -> Mapping[str, Ledger]:
        """Return by op what judged cases have visited of what the targets can visit."""
        found = {}
        for op, visits in self.visits.items():
            found[op] = ledger = Ledger(self.corners.get(op, CornerCounts()).space)
            ledger.see(visits)
            for (kind, value), count in visits.items():
                if kind in ledger.counts:
                    ledger.counts[kind][value] = count
        return found

    def pairs(self) -> Mapping[str, PairCoverage]:
        """Return by op which pairs of conditions that the targets allow held together in judged cases. This is slow."""
        return {op: held(self.corners.get(op, CornerCounts()).capabilities, each) for op, each in self.together.items()}

    @property
    def judged(self) -> int:
        """The number of judged runs: one case on one target."""
        return sum(target.judged for target in self.targets.values())

    @property
    def not_run(self) -> int:
        """The number of runs that were begun, or given to a target, and have no verdict."""
        return sum(target.not_run for target in self.targets.values())

    def note_waiting(self) -> None:
        """Say of targets whose op was not searched at all why they judged nothing."""
        waiting = [
            name
            for op, of_op in self.corners.items()
            if op not in self.visits
            for name in of_op.space[Feature("target")]
        ]
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
    """Note of outputs in how many cases more no wrong value could have been seen: one in which it could is enough."""
    for key, count in later.items():
        known[key] = 0 if 0 in (count, known.get(key)) else known.get(key, 0) + count


def never_decided(decided: Decided) -> list[str]:
    """Return the outputs that were decided in no case, and those decided in no case of a dtype with enough cases."""
    seen = {output for (output, _), count in decided.items() if not count}
    found = [
        f"{output} in {dtype}" if output in seen else output
        for (output, dtype), count in decided.items()
        if count and (output not in seen or count >= _ENOUGH)
    ]
    return [*dict.fromkeys(found)]


def widest_first(dtypes: Iterable[str]) -> tuple[str, ...]:
    """Return the dtypes by their size."""
    return tuple(sorted(dtypes, key=lambda dtype: (-ITEMSIZE[dtype], dtype)))
