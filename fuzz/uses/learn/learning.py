"""Learning: from the widest contracts of an op, down to the narrowest that no run of a kernel contradicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from fuzz.base.case import Case
from fuzz.judge.fitting import Runs, times_as_wide
from fuzz.uses.learn.evidence import KernelRuns
from oracles.dtypes import SINGLE, form
from oracles.formula.contract import INPUT, MAYBE, WIDE, Contract
from oracles.formula.neighbours import BOUNDS, DTYPES, SCALABLE, Neighbour, neighbours
from oracles.lazy import lazy
from oracles.op import Op
from oracles.summation import Sequential

_MEASURED = 16
"""Widths are measured on so many runs; the number is chosen."""
ALIKE = 1.02
"""Contracts whose widths differ by less are not told apart by it."""
_REPAIRS = 3
"""The most fields that may have to say something else than in a plain contract, one after the other, until nothing is
contradicted any more."""
_TRIED = 8
"""The number of contradicting runs by which a repair is chosen."""
_SHOWN = 6
"""The most contracts of each kind that are shown."""
_REPAIRED = ("algorithm", "points", "nonfinite", "saturate")
"""The fields by which a contract allows something else, and not only more: the widest of each other is begun with."""
_KEPT_FIELDS = ("dtypes", "compute", "nonfinite")
"""Where one value of these is narrower, it says nothing of the kernel's own: an output's rounding hides it."""


@dataclass(frozen=True)
class Candidate:
    """A contract, and what the runs say of it."""

    contract: Contract
    contradicted: int
    """By how many runs."""
    first: Case | None
    """The first case that contradicts it."""
    ratio: float
    """The worst err/budget of all runs that do not."""
    width: float
    """How much it allows, over what the first one shown does."""


@dataclass(frozen=True)
class LearnedContracts:
    """Which contracts fit."""

    fitting: Sequence[Candidate]
    """Those that no run contradicts, the narrowest first; of equally narrow ones the one that says least."""
    alike: Sequence[Neighbour]
    """Neighbours of the first one that no run tells from it."""
    contradicted: Sequence[Candidate]
    """Neighbours of the first one that are no wider; the nearest contracts where none fits."""
    whole: bool
    """False where time was over first."""


@dataclass
class Learning:
    """Looks for the narrowest contracts of an op that the evidence does not contradict."""

    op: Op
    evidence: KernelRuns
    over: Callable[[], bool]

    def __post_init__(self) -> None:
        kept = self.evidence.runs
        self.runs = Runs(kept, self.over)
        self._orders = SCALABLE if any(run.target and run.target.lanes for run in kept) else ()
        platforms = {each.name: each for run in kept if run.target for each in [run.target.platform]}
        self._growing = {name for each in platforms.values() for name, of in each.accuracy.items() if of.growth}
        """What errs by no number of ulp where it runs: of that nothing is said, so that the platform says it."""
        self._mains = {run.case.inputs[self.op.main].dtype for run in kept}
        step = max(1, -(-len(kept) // _MEASURED))
        self._sample = sorted(kept, key=lambda run: run.case.elements)[::step]

    def learned(self) -> LearnedContracts:
        """The contracts that fit, with the evidence."""
        found, starts = list[Contract](), list[Contract]()
        computes = self._computes()
        for compute in computes:
            start = self._repaired(_loosest(self.op, compute, self._growing))
            if start is None or (found and self.over()):
                continue
            # What begins wider ends so.
            ahead = any(self.width(start, each) > 1 / ALIKE for each in starts)
            found.append(start if ahead else self._narrowest(start))
            starts.append(start)
        if not found:
            nearest = sorted(
                (_loosest(self.op, compute, self._growing) for compute in computes), key=self._contradictions
            )
            shown = [self._candidate(each, nearest[0]) for each in nearest]
            return LearnedContracts((), (), shown, not self.over())
        sure = [each for each in found if self.runs.conform(each)]
        best = min(sure or found, key=lambda each: self.width(each, found[0]))
        near = {each: self.width(each.contract, best) for each in self.near(best)}
        fit = [each for each in near if self.runs.fits(each.contract)]
        alike = [replace(each, contract=self._said(each.contract)) for each in fit if _is_alike(near[each])]
        others = {*found, *(each.contract for each in fit if near[each] > ALIKE)} - {best}
        wider = sorted(others, key=lambda each: self.width(each, best))
        # Those as wide, too: where few of the runs tell two contracts apart, they are as wide in the mean.
        no_wider = sorted(
            (each for each in near if near[each] <= ALIKE and each not in fit), key=lambda each: -near[each]
        )
        fitting = [self._candidate(each, best) for each in (best, *wider[:_SHOWN])]
        against = [self._candidate(each.contract, best) for each in no_wider[:_SHOWN]]
        return LearnedContracts(fitting, alike, against, not self.over())

    def _computes(self) -> list[str]:
        """The dtypes to calculate in, but for those that mean the same in all runs as one before."""
        only_stored, found = any(form(main).only_stores for main in self._mains), list[str]()
        for each in DTYPES:
            if (each != INPUT or not only_stored) and all(self.runs.tell(Contract(each), Contract(o)) for o in found):
                found.append(each)
        return found

    @lazy
    def _usual(self) -> str:
        """What all runs are calculated in where a contract says nothing of it; where that differs, what it says."""
        first, *others = self.runs.computes(Contract())
        return WIDE if others else first

    def _said(self, contract: Contract) -> Contract:
        """The contract as it is declared, in as few words."""
        return replace(contract, compute=WIDE) if contract.compute == self._usual else contract

    def _repaired(self, contract: Contract) -> Contract | None:
        """The contract, with other words in a few fields where it is contradicted; None where that is of no use."""
        for _ in range(_REPAIRS):
            against = self.runs.against(contract)[:_TRIED]
            if not against:
                return contract
            near = [each.contract for each in neighbours(self.op, contract) if each.changed[0] in _REPAIRED]
            left = {each: sum(run.ratio(each) is None for run in against) for each in near}
            best = min(near, key=lambda each: left[each], default=contract)
            if left.get(best, len(against)) == len(against) or self.over():
                return None
            contract = best
        return contract if self.runs.fits(contract) else None

    def _narrowest(self, contract: Contract) -> Contract:
        """The narrowest contract that one comes to, in as few words: saying less may make room for another word."""
        while True:
            found = self._plainest(self._narrowed(contract))
            if found == contract or self.over():
                return found
            contract = found

    def _narrowed(self, contract: Contract) -> Contract:
        """The contract, with the narrowest neighbour that fits in its place, again and again."""
        while not self.over():
            widths = {each.contract: self.width(each.contract, contract) for each in self.near(contract)}
            narrower = sorted((each for each in widths if widths[each] < 1 / ALIKE), key=lambda each: widths[each])
            better = next((each for each in narrower if not self.over() and self.runs.fits(each)), None)
            if better is None:
                break
            contract = better
        return contract

    def _plainest(self, contract: Contract) -> Contract:
        """As narrow, with as little said as will do."""
        plain = Contract()
        for each in fields(contract):
            while each.name != "compute" and not self.over():
                near = _plainer(contract, each.name, getattr(plain, each.name))
                other = next((o for o in near if _is_alike(self.width(o, contract)) and self.runs.fits(o)), None)
                if other is None:
                    break
                contract = other
        return contract

    def near(self, contract: Contract) -> list[Neighbour]:
        """Contracts that say something else in one field, by which runs may tell them apart."""
        near = [each for each in neighbours(self.op, contract, self._orders) if each.changed[0] not in _KEPT_FIELDS]
        if self._mains - {contract.compute}:
            return near
        # To round to the dtype of all inputs, in which everything is calculated anyway, is to do nothing.
        idle, points = _in_input(contract), [(each, _in_input(each.contract)) for each in near]
        return [each for each, rounded in points if rounded <= idle]

    def width(self, contract: Contract, other: Contract) -> float:
        """How many times as much a contract allows as another."""
        return times_as_wide(self._sample, contract, other)

    def _contradictions(self, contract: Contract) -> int:
        return sum(run.times for run in self.runs.against(contract))

    def _candidate(self, contract: Contract, best: Contract) -> Candidate:
        first = next((run.case for run in self.evidence.runs if run.ratio(contract) is None), None)
        worst = max(run.ratio(contract) or 0.0 for run in self.evidence.runs)
        return Candidate(self._said(contract), self._contradictions(contract), first, worst, self.width(contract, best))


def _in_input(contract: Contract) -> set[str]:
    """What is rounded, or may be, to the dtype of the first input."""
    return {name for name, dtype in contract.points.items() if dtype.removeprefix(MAYBE) == INPUT}


def _is_alike(width: float) -> bool:
    return 1 / ALIKE <= width <= ALIKE


def _plainer(contract: Contract, name: str, default: Any) -> list[Contract]:
    """The contract with one word less in a field."""
    now: Any = getattr(contract, name)
    if isinstance(now, Mapping):
        less: list[Any] = [{key: what for key, what in now.items() if key != left} for left in now]
        return [replace(contract, **{name: each}) for each in less]
    return [] if now == default else [replace(contract, **{name: default})]


def _loosest(op: Op, compute: str = SINGLE.name, unsaid: Collection[str] = ()) -> Contract:
    """The widest plain contract of an op, which says nothing of some functions: only its formula and the dtype say what
    is calculated."""
    known = [each.contract for each in neighbours(op, Contract())]
    kinds = {key for each in known for key in each.accuracy} - {*unsaid}
    dims = {key for each in known for key in each.sums}
    return Contract(
        compute=compute, sums=dict.fromkeys(dims, Sequential()), accuracy=dict.fromkeys(sorted(kinds), BOUNDS[-1]),
        mean="reciprocal", denormals="flush", zeros="any",
        addend=next((way for way in ("any", "either") if any(each.addend == way for each in known)), "last"),
    )  # fmt: skip
