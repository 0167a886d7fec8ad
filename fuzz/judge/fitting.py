"""Fitting: kept runs of one kernel under other contracts than the declared one, and how much wider these are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome
from fuzz.judge.judge import Judge, Judgement
from fuzz.judge.values import Query
from oracles.doubledouble import head
from oracles.enclosure import Enclosure, compare
from oracles.formula.contract import Contract
from oracles.formula.neighbours import Neighbour
from oracles.formula.trace import FormulaError
from oracles.lazy import lazy
from oracles.rounding import half_gap
from oracles.summation import NumericsError

_LEAST = math.log(1e-300)
"""The logarithm of the width of what may not stray at all."""
_SOME = 256
"""At most so many elements of one run tell which ones stray, so that no large run says it alone."""


@dataclass(eq=False)
class Run:
    """What a target made of one case, to be judged under any contract."""

    case: Case
    outcome: Outcome
    mask: NDArray[np.bool_] | None = None
    """The elements that the declared contract contradicts, of the output that it says most of; None where it passes."""
    output: str = ""
    target: Target | None = None
    """Where contracts are meant, for the width of its vectors; without one they are as they stand."""
    times: int = 1
    """The number of targets that returned the same."""
    _ratios: dict[Contract, float | None] = field(default_factory=dict, init=False, repr=False)
    _widths: dict[Contract, float] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def failed(cls, case: Case, judgement: Judgement) -> Run | None:
        """The run of a finding; None where no values were judged."""
        worst = judgement.worst
        if judgement.outcome is None or worst is None:
            return None
        return cls(case, judgement.outcome, worst.mask, worst.output)

    @lazy
    def judge(self) -> Judge:
        """Its exact values, shared by all contracts."""
        return Judge(self.case)

    def query(self, contract: Contract) -> Query | None:
        """What the oracle is asked; None where no value is to be compared, which fits no contract."""
        return None if self.outcome.changes else self.judge.query(self.outcome, self.meant(contract))

    def meant(self, contract: Contract) -> Contract:
        """The contract where it ran."""
        return contract if self.target is None else self.target.meant(contract)

    def settled(self, contract: Contract) -> Contract:
        """The contract for the dtypes of its operands."""
        return self.judge.oracle.truth.op.settled(contract)

    def tells(self, contract: Contract, other: Contract) -> bool:
        """Whether the two say something else of it: not where they name one dtype in two ways."""
        try:
            return self.settled(contract) != self.settled(other)
        except NumericsError:  # nothing is calculated in what its first input is stored in
            return True

    def ratio(self, contract: Contract) -> float | None:
        """The worst err/budget under the contract; None where it is certainly contradicted, or cannot be judged.

        The fast tier alone is asked: where only the precise one could tell, nothing is ruled out. See `conforms`.
        """
        if contract not in self._ratios:
            self._ratios[contract] = self._ratio(contract)
        return self._ratios[contract]

    def used(self, contract: Contract, declared: Contract) -> float:
        """The most of what a contract allows that an element is off by what the declared one has there. A ratio is no
        such: what a contract rounds, as a constant, is a part of its centre, from which what is exact is far."""
        query = self.query(contract)
        if query is None:
            return 0.0
        got, most = self.judge.oracle.receive(query[1]).values, 0.0
        known = self._enclosures(declared)
        with np.errstate(all="ignore"):
            for name, each in self._enclosures(contract).items():
                low, high = each.outer
                shares = np.abs(got[name] - head(known[name].centre)) / ((high - low) / 2)
                most = max(most, float(shares[np.isfinite(shares)].max(initial=0.0)))
        return most

    def strays(self, contract: Contract, declared: Contract, times: float) -> NDArray[np.float64]:
        """Exact values, and beside them 1 where an element is off by more than half of what the declared contract
        allows, or 0: of some of those of which the other contract allows so many times as much."""
        query, found = self.query(contract), [np.empty((0, 2))]
        wide, known = self._enclosures(contract), self._enclosures(declared)
        got = {} if query is None else self.judge.oracle.receive(query[1]).values
        with np.errstate(all="ignore"):
            for name, values in got.items():
                now, before = (each.outer[1] - each.outer[0] for each in (wide[name], known[name]))
                exact = head(known[name].centre)
                wider = (now > times * before) & np.isfinite(now) & np.isfinite(exact)
                found.append(np.stack([exact[wider], np.abs(values - exact)[wider] > before[wider] / 4], -1))
        elements = np.concatenate(found)
        return elements[:: 1 + len(elements) // _SOME]

    def conforms(self, contract: Contract) -> bool:
        """Whether the outputs are as the contract allows, by both tiers."""
        query = self.query(contract)
        try:
            return query is not None and self.judge.oracle.check(query).result == "pass"
        except NumericsError:
            return False

    def _ratio(self, contract: Contract) -> float | None:
        query = self.query(contract)
        if query is None:
            return None
        worst, got = 0.0, self.judge.oracle.receive(query[1]).values
        try:
            enclosures = self._enclosures(contract)
        except (NumericsError, FormulaError):
            return None
        with np.errstate(all="ignore"):
            for name, each in enclosures.items():
                if got[name].size:
                    comparison = compare(each, got[name])
                    if comparison.failing.any():
                        return None
                    worst = max(worst, float(comparison.ratio.max()))
        return worst

    def _enclosures(self, contract: Contract) -> Mapping[str, Enclosure]:
        """They are not kept, as those of a hundred contracts would fill the memory."""
        with np.errstate(all="ignore"):
            return self.judge.oracle.truth.op.enclose(self.meant(contract), self.case.structured)

    def width(self, contract: Contract) -> float:
        """The logarithm of how far an element may lie from its exact value, its rounding included, in the mean over
        those that fail, or over all where it passes; inf where most of them are not judged."""
        if contract not in self._widths:
            sizes = self._sizes(contract)
            judged = sizes[sizes < np.inf]
            mean = float(np.maximum(judged, _LEAST).mean()) if judged.size else 0.0
            self._widths[contract] = mean if 2 * judged.size >= sizes.size else math.inf
        return self._widths[contract]

    def share(self, contract: Contract) -> float:
        """How far an element may lie from its exact value, as a share of that: the median of those that are judged."""
        shares = [share for each in self._enclosures(contract).values() for share in each.shares()]
        return float(np.median(shares)) if shares else math.inf

    def _sizes(self, contract: Contract) -> NDArray[np.float64]:
        found: list[NDArray[Any]] = []
        with np.errstate(all="ignore"):
            for name, each in self._enclosures(contract).items():
                if self.mask is not None and name != self.output:
                    continue
                centre = head(each.centre)
                size = np.log(np.fmax(each.below, each.above) + half_gap(centre, each.form, centre < 0))
                size = np.where(np.isfinite(centre), size, np.nan)
                if each.unjudged is not None:
                    size = np.where(each.unjudged, np.inf, size)
                size = size.reshape(-1)
                if self.mask is not None:
                    size = size[self.mask.reshape(-1)[self.judge.oracle.truth.places(name).reshape(-1)]]
                found.append(size[~np.isnan(size)])
        return np.concatenate(found)


@dataclass
class Runs:
    """Kept runs of one kernel, and what they say of contracts until time is over."""

    kept: Sequence[Run]
    over: Callable[[], bool]
    _order: list[Run] = field(init=False)
    """Those that contradicted something last first: these rule out most."""

    def __post_init__(self) -> None:
        self._order = list(self.kept)

    def fits(self, contract: Contract) -> bool:
        """Whether no run certainly contradicts it."""
        against = next((run for run in self._order if run.ratio(contract) is None), None)
        if against is not None:
            self._order.remove(against)
            self._order.insert(0, against)
        return against is None

    def computes(self, contract: Contract) -> frozenset[str]:
        """The dtypes that they are calculated in under it."""
        return frozenset(run.settled(contract).compute for run in self.kept)

    def tell(self, contract: Contract, other: Contract) -> bool:
        """Whether the two say something else of one of them."""
        return any(run.tells(contract, other) for run in self.kept)

    def fitting(self, near: Iterable[Neighbour]) -> list[Neighbour]:
        """Those of the contracts that fit."""
        return [each for each in takewhile(lambda _: not self.over(), near) if self.fits(each.contract)]

    def against(self, contract: Contract) -> list[Run]:
        """The runs that contradict it."""
        return [run for run in self._order if run.ratio(contract) is None]

    def conform(self, contract: Contract) -> bool:
        """Whether all are as the contract allows, by both tiers."""
        return all(run.conforms(contract) for run in self.kept)


def times_as_wide(runs: Iterable[Run], contract: Contract, other: Contract) -> float:
    """How many times as much one contract allows as the other does, in the geometric mean over runs; 1 where there are
    none."""
    shares = _shares(runs, contract, other)
    if {-math.inf, math.inf} <= {*shares}:  # each allows no error at all, or any, in some runs: the others decide
        shares = [share for share in shares if math.isfinite(share)] or [0.0]
    return float(np.exp(np.mean(shares)))


def usually_as_wide(runs: Iterable[Run], contract: Contract, other: Contract) -> float:
    """The same of the middle one of the runs: where one of many overflows, a contract may judge nothing."""
    return float(np.exp(np.median(_shares(runs, contract, other))))


def _shares(runs: Iterable[Run], contract: Contract, other: Contract) -> list[float]:
    shares = [run.width(contract) - run.width(other) for run in runs]
    # What neither judges is as wide as itself.
    return [0.0 if math.isnan(share) else share for share in shares or [0.0]]
