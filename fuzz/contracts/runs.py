"""Runs of one kernel, drawn and designed, judged under any contract: which contracts fit, and how much wider they
are."""

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
from fuzz.core.execute.batch import Pool
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
"""The logarithm of the width of a value that may not stray at all."""
_SOME = 256
"""The most elements of one run that count when strays are looked for, so that no large run decides alone."""


@dataclass(eq=False)
class TargetRun:
    """What a target returned for one case, to be judged under any contract."""

    case: Case
    outcome: Outcome
    mask: NDArray[np.bool_] | None = None
    """The elements that contradict the declared contract, in the output that contradicts it most; None if it passes."""
    output: str = ""
    target: Target | None = None
    """The target, whose vector width completes contracts; without one they stand as they are."""
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
        """Return its judge, whose exact values all contracts share."""
        return Judge(self.case)

    def query(self, contract: Contract) -> Query | None:
        """Return what the oracle is asked; None if no value can be compared, so that no contract fits."""
        return None if self.outcome.changes else self.judge.query(self.outcome, self.meant(contract))

    def meant(self, contract: Contract) -> Contract:
        """Return the contract as it is where the run was made."""
        return contract if self.target is None else self.target.meant(contract)

    def settled(self, contract: Contract) -> Contract:
        """Return the contract for the dtypes of its operands."""
        return self.judge.oracle.truth.op.settled(contract)

    def tells(self, contract: Contract, other: Contract) -> bool:
        """Return whether the two contracts differ for this run; they do not if they only name one dtype in two ways."""
        try:
            return self.settled(contract) != self.settled(other)
        except NumericsError:  # nothing is calculated in the dtype in which its first input is stored
            return True

    def ratio(self, contract: Contract) -> float | None:
        """Return the worst err/budget under the contract; None if it is certainly contradicted, or cannot be judged.
        Only the fast tier is asked: what only the precise one could tell rules nothing out. See `conforms`."""
        if contract not in self._ratios:
            self._ratios[contract] = self._ratio(contract)
        return self._ratios[contract]

    def used(self, contract: Contract, declared: Contract) -> float:
        """Return the largest share of what a contract allows that the error of an element is, relative to the declared
        contract's centre. A ratio will not do: a rounding that the contract makes, for example of a constant, moves its
        centre, and exact values are far from that."""
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
        """Return exact values, each with 1 if the element's error is more than half of what the declared contract
        allows, else 0, for some of the elements for which the other contract allows at least `times` as much."""
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
        """Return enclosures without keeping them, since those of a hundred contracts would fill the memory."""
        with np.errstate(all="ignore"):
            return self.judge.oracle.truth.op.enclose(self.meant(contract), self.case.structured)

    def width(self, contract: Contract) -> float:
        """Return the logarithm of how far an element may lie from its exact value, its rounding included: the mean over
        failing elements, or over all if it passes; inf if most of them are not judged."""
        if contract not in self._widths:
            sizes = self._sizes(contract)
            judged = sizes[sizes < np.inf]
            mean = float(np.maximum(judged, _LEAST).mean()) if judged.size else 0.0
            self._widths[contract] = mean if 2 * judged.size >= sizes.size else math.inf
        return self._widths[contract]

    def share(self, contract: Contract) -> float:
        """Return how far an element may lie from its exact value, relative to it: the median over judged elements."""
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

    kept: Sequence[TargetRun]
    over: Callable[[], bool]
    _order: list[TargetRun] = field(init=False)
    """The runs, those first that contradicted something last: these rule out most."""

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
        """Return the dtypes that the runs are calculated in under a contract."""
        return frozenset(run.settled(contract).compute for run in self.kept)

    def tell(self, contract: Contract, other: Contract) -> bool:
        """Whether the two say something else of one of them."""
        return any(run.tells(contract, other) for run in self.kept)

    def fitting(self, near: Iterable[Neighbour]) -> list[Neighbour]:
        """Return those of the contracts that fit."""
        return [each for each in takewhile(lambda _: not self.over(), near) if self.fits(each.contract)]

    def conform(self, contract: Contract) -> bool:
        """Whether all are as the contract allows, by both tiers."""
        return all(run.conforms(contract) for run in self.kept)


def times_as_wide(runs: Iterable[TargetRun], contract: Contract, other: Contract) -> float:
    """Return how many times as much one contract allows as the other, as the geometric mean over runs; 1 if none."""
    shares = _shares(runs, contract, other)
    if {-math.inf, math.inf} <= {*shares}:  # in some runs one allows no error at all, or any: others decide
        shares = [share for share in shares if math.isfinite(share)] or [0.0]
    return float(np.exp(np.mean(shares)))


def usually_as_wide(runs: Iterable[TargetRun], contract: Contract, other: Contract) -> float:
    """Return how many times as much one contract allows as the other in the median run: where one of many overflows, a
    contract may judge nothing."""
    return float(np.exp(np.median(_shares(runs, contract, other))))


def _shares(runs: Iterable[TargetRun], contract: Contract, other: Contract) -> list[float]:
    shares = [run.width(contract) - run.width(other) for run in runs]
    # What neither judges is as wide as itself.
    return [0.0 if math.isnan(share) else share for share in shares or [0.0]]


_LARGEST = 1 << 11
"""Runs of a search with more elements would take most of the time, and tell little more."""
_LONG = (63, 1023, 8191)
"""Lengths of sums with a tail for any number of lanes."""
_SMALL = (2.0**-24, 2.0**-12, -17.0)
"""Values that are lost when they are added to 1 one by one: 2^-24 does not change an f32 sum, so the error is that of a
longest chain; nor do the squares of 2^-12, and nearly so the exponentials of -17 beside that of 0."""
_BESIDE = 8
"""The number of batches of the search between two batches of such cases."""


def gathered(pool: Pool, target: Target, seed: int, most: int, over: Callable[[], bool]) -> list[TargetRun]:
    """Return the judged runs of at most `most` cases on a target; fewer if time is over, or if hardly a drawn case is
    small enough."""
    found, cases_run, kernel = list[TargetRun](), 0, target.kernel
    if isinstance(pool.statuses.get(target.id), NotRun):
        return found
    largest = _LARGEST + _always(OPS[kernel.op])
    for number, batch in enumerate(batches(Search(kernel.op, seed, [kernel]))):
        cases = [each.case for each in batch if 0 < each.case.elements <= largest]
        if number % _BESIDE == 0:
            cases += _telling(cases)
        cases = [case for case in cases if kernel.capability.accepts(case)][: most - cases_run]
        outcomes = (each.get(target.id) for each in pool.submit(cases).outcomes())
        runs = [
            TargetRun(case, each, target=target) for case, each in zip(cases, outcomes, strict=True) if each is not None
        ]
        found += [run for run in runs if run.query(target.contract) is not None]
        cases_run += len(cases)
        if cases_run >= most or over() or number >= most:
            break
    return found


def _always(op: Op) -> int:
    """Return the number of elements of tensors whose size does not vary, such as the weights of a module."""
    return sum(math.prod(op.fixed[dim] for dim in each.axes) for each in op.operands if {*each.axes} <= op.fixed.keys())


def _telling(cases: Sequence[Case]) -> list[Case]:
    """Return cases with one large term before many small ones, in sums along rows or over them."""
    for case in cases:
        with contextlib.suppress(CaseError):
            neutral = {each.name: min(each.values, key=abs) for each in OPS[case.op].parameters if each.power}
            base = base_of(case).with_params(**neutral)  # such as eps, which would hide the sum
            drawn = [_along(base, n, small) for small in _SMALL for n in _LONG]
            drawn += [_over(base, n, small) for small in _SMALL[:2] for n in _LONG[:2]]
            made_of = [made(each) for draw in drawn for each in (draw, of_dtype(draw, SINGLE.name))]
            return list({each.digest: each for each in made_of}.values())
    return []


def _along(base: Draw, n: int, small: float) -> Draw:
    """Return a draw with one row of n, in all inputs that have the first one's shape."""
    row = np.full((1, n), small)
    row[0, 0] = 0.0 if small < 0 else 1.0
    return _filled(sized(replace(base, n=n), 1), dict.fromkeys(grids(base), row))


def _over(base: Draw, rows: int, small: float) -> Draw:
    """Return a draw of `rows` rows of few elements; the first input is plain."""
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
