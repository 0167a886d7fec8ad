"""Fitting: judged runs under other contracts than the declared one, and how much wider these are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Case
from fuzz.base.outcome import Outcome
from fuzz.judge.judge import Judge, Judgement
from fuzz.judge.values import Query
from oracles.doubledouble import head
from oracles.enclosure import Enclosure, compare
from oracles.formula.contract import Contract
from oracles.formula.trace import FormulaError
from oracles.lazy import lazy
from oracles.rounding import half_gap
from oracles.summation import NumericsError


@dataclass(eq=False)
class Run:
    """What one target made of one case, to be judged under any contract."""

    case: Case
    outcome: Outcome
    mask: NDArray[np.bool_] | None = None
    """The elements that the declared contract contradicts, of the output that it says most of."""
    output: str = ""

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
        return None if self.outcome.changes else self.judge.query(self.outcome, contract)

    def ratio(self, contract: Contract) -> float | None:
        """The worst err/budget under the contract; None where it is certainly contradicted, or cannot be judged.

        The fast tier alone is asked: where only the precise one could tell, nothing is ruled out. See `conforms`.
        """
        if contract not in self._ratios:
            self._ratios[contract] = self._ratio(contract)
        return self._ratios[contract]

    def conforms(self, contract: Contract) -> bool:
        """Whether the outputs are as the contract allows, by both tiers."""
        query = self.query(contract)
        try:
            return query is not None and self.judge.oracle.check(query).result == "pass"
        except NumericsError:
            return False

    @lazy
    def _ratios(self) -> dict[Contract, float | None]:
        return {}

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
            return self.judge.oracle.truth.op.enclose(contract, self.case.structured)

    def widths(self, contract: Contract, *, failing: bool = False) -> NDArray[np.float64]:
        """How far each element may lie from its exact value, its rounding included; inf where it is not judged. Only
        the failing ones where `failing`."""
        found: list[NDArray[Any]] = []
        with np.errstate(all="ignore"):
            for name, each in self._enclosures(contract).items():
                if failing and self.mask is not None and name != self.output:
                    continue
                centre = head(each.centre)
                width = np.fmax(each.below, each.above) + half_gap(centre, each.form, centre < 0)
                if each.unjudged is not None:
                    width = np.where(each.unjudged, np.inf, width)
                flat = np.where(np.isfinite(centre), width, np.nan).reshape(-1)
                if failing and self.mask is not None:
                    places = self.judge.oracle.truth.places(name).reshape(-1)
                    flat = flat[self.mask.reshape(-1)[places]]
                found.append(flat)
        return np.concatenate(found)


def times_as_wide(runs: Iterable[Run], contract: Contract, other: Contract, *, failing: bool = False) -> float:
    """How many times as much one contract allows as the other does, in the median over runs of that over elements."""
    found = list[float]()
    for run in runs:
        with np.errstate(all="ignore"):
            shares = run.widths(contract, failing=failing) / run.widths(other, failing=failing)
        shares = shares[~np.isnan(shares)]
        if shares.size:
            found.append(float(np.median(shares)))
    return float(np.median(found)) if found else 1.0
