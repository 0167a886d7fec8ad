"""Runs of one kernel that can be judged under any contract: which contracts allow them, and how wide contracts are."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import GIVEN, Draw
from fuzz.core.base.outcome import Outcome
from fuzz.core.execute.batch import Pool, outcomes_on
from fuzz.core.generate.given import given_rows
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.storage import grids
from fuzz.core.generate.variations import base_of, made, of_dtype, sized
from fuzz.core.judge.judge import Judge, Judgement
from fuzz.core.judge.values import Query
from oracles.doubledouble import head
from oracles.dtypes import SINGLE
from oracles.enclosure import Enclosure, compare
from oracles.formula.contract import Contract
from oracles.formula.trace import FormulaError
from oracles.lazy import lazy
from oracles.neighbours import Neighbour
from oracles.op import Op
from oracles.ops import OPS
from oracles.rounding import half_gap
from oracles.summation import NumericsError

_LEAST = math.log(1e-300)
"""The smallest logarithm of a width. It stands for the width of a value that must be exact."""
_SOME = 256
"""The most elements of one run that `strays` returns, so that no large run decides alone."""


@dataclass(eq=False)
class TargetRun:
    """What a target returned for one case, to be judged under any contract."""

    case: Case
    outcome: Outcome
    mask: NDArray[np.bool_] | None = None
    """The elements that contradict the declared contract, in the output that contradicts it most; None if it passes."""
    output: str = ""
    target: Target | None = None
    """The target, whose vector length completes contracts. None: contracts are used unchanged."""
    _ratios: dict[Contract, float | None] = field(default_factory=dict, init=False, repr=False)
    _widths: dict[Contract, float] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def failed(cls, case: Case, judgement: Judgement) -> TargetRun | None:
        """Return the run of a finding; None if no values were judged."""
        worst = judgement.worst
        if judgement.outcome is None or worst is None:
            return None
        return cls(case, judgement.outcome, worst.mask, worst.output)

    @lazy
    def judge(self) -> Judge:
        """Return the judge of the case; its exact values serve for all contracts."""
        return Judge(self.case)

    def query(self, contract: Contract) -> Query | None:
        """Return the query for the oracle; None if the outputs cannot be compared, so that no contract allows them."""
        return None if self.outcome.changes else self.judge.query(self.outcome, self.meant(contract))

    def meant(self, contract: Contract) -> Contract:
        """Return the contract completed by the facts of the target."""
        return contract if self.target is None else self.target.meant(contract)

    def settled(self, contract: Contract) -> Contract:
        """Return the contract with the dtypes that follow from the dtypes of the case's operands."""
        return self.judge.oracle.truth.op.settled(contract)

    def tells(self, contract: Contract, other: Contract) -> bool:
        """Return whether the two contracts differ for this run in more than the name of a dtype."""
        try:
            return self.settled(contract) != self.settled(other)
        except NumericsError:  # nothing is calculated in the dtype in which its first input is stored
            return True

    def ratio(self, contract: Contract) -> float | None:
        """Return the worst err/budget under the contract, by the fast tier alone: the precise tier may still contradict
        the contract, see `conforms`. None if an output certainly contradicts it, or cannot be judged."""
        if contract not in self._ratios:
            self._ratios[contract] = self._ratio(contract)
        return self._ratios[contract]

    def used(self, contract: Contract, declared: Contract) -> float:
        """Return the largest error of an element as a share of what a contract allows. The error is the distance from
        the centre of the declared contract: err/budget does not serve, since a contract that rounds a constant has
        another centre, from which exact values are far."""
        query = self.query(contract)
        if query is None:
            return 0.0
        got, most = self.judge.oracle.receive(query[1]).values, 0.0
        known = self._enclosures(declared)
        try:
            wide = self._enclosures(contract)
        except (NumericsError, FormulaError):  # such as places that few bits round to places outside
            return 0.0
        with np.errstate(all="ignore"):
            for name, each in wide.items():
                low, high = each.outer
                shares = np.abs(got[name] - head(known[name].centre)) / ((high - low) / 2)
                most = max(most, float(shares[np.isfinite(shares)].max(initial=0.0)))
        return most

    def strays(self, contract: Contract, declared: Contract, times: float) -> NDArray[np.float64]:
        """Return rows of two numbers, shape `[elements, 2]`: an exact value, and 1 if the element's error is more than
        half of what the declared contract allows, else 0. Only some of the elements are returned for which the other
        contract allows more than `times` as much as the declared one."""
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
        """Whether the contract allows the outputs; the precise tier decides where the fast one cannot."""
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
        self._widths[contract] = self._width(enclosures)  # asked for whenever a contract fits
        return worst

    def _enclosures(self, contract: Contract) -> Mapping[str, Enclosure]:
        """Return the enclosures under a contract. They are not kept: those of a hundred contracts fill the memory."""
        with np.errstate(all="ignore"):
            return self.judge.oracle.truth.op.enclose(self.meant(contract), self.case.structured)

    def width(self, contract: Contract) -> float:
        """Return the logarithm of the distance that an element may have from its exact value, its own rounding
        included: the mean over failing elements, or over all if the run passes; inf if most of them are not judged."""
        if contract not in self._widths:
            self._widths[contract] = self._width(self._enclosures(contract))
        return self._widths[contract]

    def _width(self, enclosures: Mapping[str, Enclosure]) -> float:
        sizes = self._sizes(enclosures)
        judged = sizes[sizes < np.inf]
        mean = float(np.maximum(judged, _LEAST).mean()) if judged.size else 0.0
        return mean if 2 * judged.size >= sizes.size else math.inf

    def share(self, contract: Contract) -> float:
        """Return the relative distance that an element may have from its exact value: the median over elements."""
        shares = [share for each in self._enclosures(contract).values() for share in each.shares()]
        return float(np.median(shares)) if shares else math.inf

    def _sizes(self, enclosures: Mapping[str, Enclosure]) -> NDArray[np.float64]:
        found: list[NDArray[Any]] = []
        with np.errstate(all="ignore"):
            for name, each in enclosures.items():
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
    """The runs of one kernel that were kept, and what contracts allow them all, until there is no time left."""

    kept: Sequence[TargetRun]
    over: Callable[[], bool]
    _order: list[TargetRun] = field(init=False)
    """The runs; a run that last contradicted a contract comes first, since it rules out most contracts."""

    def __post_init__(self) -> None:
        self._order = list(self.kept)

    def fits(self, contract: Contract) -> bool:
        """Whether no run certainly contradicts the contract."""
        against = next((run for run in self._order if run.ratio(contract) is None), None)
        if against is not None:
            self._order.remove(against)
            self._order.insert(0, against)
        return against is None

    def computes(self, contract: Contract) -> frozenset[str]:
        """Return the dtypes in which the kept runs are calculated under a contract."""
        return frozenset(run.settled(contract).compute for run in self.kept)

    def tell(self, contract: Contract, other: Contract) -> bool:
        """Whether the two contracts differ for at least one run."""
        return any(run.tells(contract, other) for run in self.kept)

    def fitting(self, near: Iterable[Neighbour]) -> list[Neighbour]:
        """Return the neighbours whose contracts no run contradicts, as far as there is time."""
        return [each for each in takewhile(lambda _: not self.over(), near) if self.fits(each.contract)]

    def conform(self, contract: Contract) -> bool:
        """Whether the contract allows all runs, decided by both tiers."""
        return all(run.conforms(contract) for run in self.kept)


def times_as_wide(runs: Iterable[TargetRun], contract: Contract, other: Contract) -> float:
    """Return how many times as much error `contract` allows as `other`: the geometric mean over runs, or 1."""
    shares = _shares(runs, contract, other)
    if {-math.inf, math.inf} <= {*shares}:  # in some runs one allows no error at all, or any: others decide
        shares = [share for share in shares if math.isfinite(share)] or [0.0]
    return float(np.exp(np.mean(shares)))


def usually_as_wide(runs: Iterable[TargetRun], contract: Contract, other: Contract) -> float:
    """Return how many times as much error `contract` allows as `other` in the median run. The mean would be infinite if
    a value overflows in a single run, for which a contract may judge nothing."""
    return float(np.exp(np.median(_shares(runs, contract, other))))


def _shares(runs: Iterable[TargetRun], contract: Contract, other: Contract) -> list[float]:
    shares = [run.width(contract) - run.width(other) for run in runs]
    # An element that neither contract judges counts as equally wide under both.
    return [0.0 if math.isnan(share) else share for share in shares or [0.0]]


_LARGEST = 1 << 11
"""The most elements of a drawn case: larger ones would take most of the time, and tell little more."""
_LONG = (63, 1023, 8191)
"""Lengths of sums that leave a tail for any number of lanes."""
_SMALL = (2.0**-24, 2.0**-12, -17.0)
"""The small terms of designed sums, which are lost when they are added one by one to a large term: 2^-24 does not
change an f32 sum of 1, so the error grows with the length of a plain loop. The squares of 2^-12 do the same, and nearly
so the exponentials of -17 beside the exponential of 0."""
_BESIDE = 8
"""Designed cases are added to every eighth batch of the search."""


def gathered(pool: Pool, target: Target, seed: int, most: int, over: Callable[[], bool]) -> list[TargetRun]:
    """Return the judged runs of at most `most` cases; fewer if time is short, or if few drawn cases are small."""
    found, cases_run, kernel = list[TargetRun](), 0, target.kernel
    if isinstance(pool.statuses.get(target.id), NotRun):
        return found
    largest = _LARGEST + _always(OPS[kernel.op])
    for number, batch in enumerate(batches(Search(kernel.op, seed, [kernel]))):
        cases = [each.case for each in batch if 0 < each.case.elements <= largest]
        if number % _BESIDE == 0:
            cases += _telling(cases)
        cases = [case for case in cases if kernel.capability.accepts(case)][: most - cases_run]
        outcomes = zip(cases, outcomes_on(target.id, pool, cases), strict=True)
        runs = [TargetRun(case, each, target=target) for case, each in outcomes if each is not None]
        found += [run for run in runs if run.query(target.contract) is not None]
        cases_run += len(cases)
        if cases_run >= most or over() or number >= most:
            break
    return found


def _always(op: Op) -> int:
    """Return the number of elements of the tensors that have fixed extents, such as the weights of a module."""
    return sum(math.prod(op.fixed[dim] for dim in each.axes) for each in op.operands if {*each.axes} <= op.fixed.keys())


def _telling(cases: Sequence[Case]) -> list[Case]:
    """Return designed cases with one large term before many small ones, for sums along a row and for sums over rows."""
    for case in cases:
        with contextlib.suppress(CaseError):
            neutral = {each.name: min(each.values, key=abs) for each in OPS[case.op].parameters if each.power}
            # A parameter such as eps would hide the sum.
            base = base_of(case).with_params(**neutral)
            drawn = [_along(base, n, small) for small in _SMALL for n in _LONG]
            drawn += [_over(base, n, small) for small in _SMALL[:2] for n in _LONG[:2]]
            made_of = [made(each) for draw in drawn for each in (draw, of_dtype(draw, SINGLE.name))]
            return list({each.digest: each for each in made_of}.values())
    return []


def _along(base: Draw, n: int, small: float) -> Draw:
    """Return a draw with one row of `n` elements in each input that has the first input's shape."""
    row = np.full((1, n), small)
    row[0, 0] = 0.0 if small < 0 else 1.0
    return _filled(sized(replace(base, n=n), 1), dict.fromkeys(grids(base), row))


def _over(base: Draw, rows: int, small: float) -> Draw:
    """Return a draw of `rows` rows of 3 elements: the first input is all ones, the other inputs have the terms."""
    column = np.full((rows, 1), small)
    column[0, 0] = 1.0
    main = OPS[base.op].main
    return _filled(
        sized(replace(base, n=3), rows), {name: np.ones((1, 1)) if name == main else column for name in grids(base)}
    )


def _filled(draw: Draw, values: Mapping[str, NDArray[np.float64]]) -> Draw:
    parts = (
        replace(draw.part(name), recipe=GIVEN, given=given_rows(each))
        for name, each in values.items()
        if draw.part(name).given is not None
    )
    return replace(draw.with_parts(*parts), structured=True)
