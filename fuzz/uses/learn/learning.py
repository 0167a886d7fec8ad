"""Learning: from the widest contracts of an op, down to the narrowest that no run of a kernel contradicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Case
from fuzz.uses.learn.evidence import Evidence, Observed
from oracles.dtypes import form
from oracles.formula.contract import INPUT, Contract
from oracles.formula.neighbours import BOUNDS, DTYPES, SCALABLE, Neighbour, neighbours
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
class Learned:
    """Which contracts fit."""

    fitting: Sequence[Candidate]
    """Those that no run contradicts, the narrowest first; of equally narrow ones the one that says least."""
    alike: Sequence[Neighbour]
    """Neighbours of the first one that no run tells from it."""
    contradicted: Sequence[Candidate]
    """Narrower neighbours of the first one; the nearest contracts where none fits."""
    whole: bool
    """False where time was over first."""


@dataclass
class Learning:
    """Looks for the narrowest contracts of an op that the evidence does not contradict."""

    op: Op
    evidence: Evidence
    over: Callable[[], bool]
    _order: list[Observed] = field(default_factory=list)
    """The runs, those that contradicted something last first: these rule out most."""
    _fits: dict[Contract, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._order = list(self.evidence.runs)
        self._scalable = any(each.target.lanes for each in self._order)
        self._mains = {each.run.case.inputs[self.op.main].dtype for each in self._order}
        step = max(1, -(-len(self._order) // _MEASURED))
        by_size = sorted(self.evidence.runs, key=lambda each: each.run.case.elements)
        self._sample = by_size[::step]
        self._widths: dict[Contract, NDArray[np.float64]] = {}

    def learned(self) -> Learned:
        """The contracts that fit, with the evidence."""
        found, starts = list[Contract](), list[Contract]()
        only_stored = any(form(main).only_stores for main in self._mains)
        computes = [each for each in DTYPES if each != INPUT or not only_stored]
        for compute in computes:
            start = self._repaired(_loosest(self.op, compute))
            if start is None or (found and self.over()):
                continue
            # What begins wider ends so.
            ahead = any(self.width(start, each) > 1 / ALIKE for each in starts)
            found.append(start if ahead else self._narrowest(start))
            starts.append(start)
        if not found:
            nearest = sorted((_loosest(self.op, compute) for compute in computes), key=self._contradictions)
            shown = [self._candidate(each, nearest[0]) for each in nearest]
            return Learned((), (), shown, not self.over())
        sure = [each for each in found if all(run.run.conforms(run.meant(each)) for run in self.evidence.runs)]
        best = min(sure or found, key=lambda each: self.width(each, found[0]))
        near = self.near(best)
        of = {each.contract: each for each in self._neighbours(best)}
        alike = [of[each] for each in near if self._is_alike(each, best) and self.fits(each)]
        wider = [each for each in near if of[each] not in alike and self.width(each, best) > 1 and self.fits(each)]
        narrower = [each for each in near if self.width(each, best) < 1 / ALIKE and not self.fits(each)]
        wider = sorted({*found, *wider} - {best}, key=lambda each: self.width(each, best))
        narrower.sort(key=lambda each: -self.width(each, best))
        fitting = [self._candidate(each, best) for each in (best, *wider[:_SHOWN])]
        return Learned(fitting, alike, [self._candidate(each, best) for each in narrower[:_SHOWN]], not self.over())

    def fits(self, contract: Contract) -> bool:
        """Whether no run contradicts it."""
        if contract not in self._fits:
            against = next((each for each in self._order if each.ratio(contract) is None), None)
            if against is not None:
                self._order.remove(against)
                self._order.insert(0, against)
            self._fits[contract] = against is None
        return self._fits[contract]

    def _repaired(self, contract: Contract) -> Contract | None:
        """The contract, with other words in a few fields where it is contradicted; None where that is of no use."""
        for _ in range(_REPAIRS):
            if self.fits(contract):
                return contract
            against = [each for each in self._order if each.ratio(contract) is None][:_TRIED]
            near = [each.contract for each in neighbours(self.op, contract) if each.changed[0] in _REPAIRED]
            left = {each: sum(run.ratio(each) is None for run in against) for each in near}
            best = min(near, key=lambda each: left[each], default=contract)
            if left.get(best, len(against)) == len(against) or self.over():
                return None
            contract = best
        return contract if self.fits(contract) else None

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
            near = self.near(contract)
            widths = {each: self.width(each, contract) for each in near}
            narrower = sorted((each for each in near if widths[each] < 1 / ALIKE), key=lambda each: widths[each])
            better = next((each for each in narrower if not self.over() and self.fits(each)), None)
            if better is None:
                break
            contract = better
        return contract

    def _plainest(self, contract: Contract) -> Contract:
        """As narrow, with as little said as will do."""
        plain = Contract()
        for each in fields(contract):
            while each.name != "compute" and not self.over():
                near = self._plainer(contract, each.name, getattr(plain, each.name))
                other = next((o for o in near if self._is_alike(o, contract) and self.fits(o)), None)
                if other is None:
                    break
                contract = other
        return contract

    def _plainer(self, contract: Contract, name: str, default: Any) -> list[Contract]:
        now: Any = getattr(contract, name)
        if isinstance(now, Mapping):
            less: list[Any] = [{key: what for key, what in now.items() if key != left} for left in now]
            return [replace(contract, **{name: each}) for each in less]
        return [] if now == default else [replace(contract, **{name: default})]

    def near(self, contract: Contract) -> list[Contract]:
        """Contracts that say something else in one field, by which runs may tell them apart."""
        return [each.contract for each in self._neighbours(contract) if each.changed[0] not in _KEPT_FIELDS]

    def _neighbours(self, contract: Contract) -> list[Neighbour]:
        near = neighbours(self.op, contract, SCALABLE if self._scalable else ())
        if self._mains - {contract.compute}:
            return near
        # To round to the dtype of all inputs, in which everything is calculated anyway, is to do nothing.
        idle = {name for name, dtype in contract.points.items() if dtype == INPUT}
        return [each for each in near if {n for n, dtype in each.contract.points.items() if dtype == INPUT} <= idle]

    def _is_alike(self, one: Contract, other: Contract) -> bool:
        return 1 / ALIKE <= self.width(one, other) <= ALIKE

    def width(self, contract: Contract, other: Contract) -> float:
        """How much a contract allows over another, in the geometric mean over runs of that over elements."""
        return float(np.exp(np.mean(self._logarithms(contract) - self._logarithms(other))))

    def _logarithms(self, contract: Contract) -> NDArray[np.float64]:
        if contract not in self._widths:
            logs = []
            for each in self._sample:
                with np.errstate(all="ignore"):
                    sizes = np.log(each.run.widths(each.meant(contract)))
                # What is not judged at all is as wide as anything.
                sizes = np.nan_to_num(sizes, nan=0.0, posinf=math.log(1e6), neginf=math.log(1e-300))
                logs.append(sizes.mean() if sizes.size else 0.0)
            self._widths[contract] = np.array(logs)
        return self._widths[contract]

    def _contradictions(self, contract: Contract) -> int:
        return sum(each.times for each in self.evidence.runs if each.ratio(contract) is None)

    def _candidate(self, contract: Contract, best: Contract) -> Candidate:
        ratios = [each.ratio(contract) for each in self.evidence.runs]
        against = [each for each, ratio in zip(self.evidence.runs, ratios, strict=True) if ratio is None]
        worst = max((ratio for ratio in ratios if ratio is not None), default=0.0)
        first = against[0].run.case if against else None
        return Candidate(contract, sum(each.times for each in against), first, worst, self.width(contract, best))


def _loosest(op: Op, compute: str = "f32") -> Contract:
    """The widest plain contract of an op: only its formula and the dtype say what is calculated."""
    kinds = {key for each in neighbours(op, Contract()) for key in each.contract.accuracy}
    dims = {key for each in neighbours(op, Contract()) for key in each.contract.sums}
    return Contract(
        compute=compute, sums=dict.fromkeys(dims, Sequential()), accuracy=dict.fromkeys(sorted(kinds), BOUNDS[-1]),
        mean="reciprocal", denormals="flush", zeros="any",
    )  # fmt: skip
