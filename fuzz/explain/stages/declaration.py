"""Declarations: whether a neighbouring contract allows what a kernel returned against its own contract."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import TypeVar

import numpy as np

from fuzz.contracts.runs import Runs, TargetRun, times_as_wide, usually_as_wide
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.evidence.refutation import searched
from fuzz.explain.explanation import ALIKE, MANY, WIDE, FittingContract
from fuzz.explain.stages.forms import meaning
from fuzz.explain.trial.trial import OutOfTimeError, Trials
from oracles.formula.contract import Contract
from oracles.neighbours import Neighbour, neighbours, pairs
from oracles.ops import OPS

_T = TypeVar("_T")
LEAST, _FAILING, _PASSING = 3, 12, 6
"""The least number of failing runs that a neighbour must fit, and the numbers of failing and passing runs that it is
tried on. A bug that looks like another contract in one case seldom does so in three. Chosen, not measured."""
_NONFINITE = 4
"""The most failing runs with infinite or NaN results: contracts that allow overflow judge nothing there. Chosen, not
measured."""
_DRAWN, _BATCH, _MOST_PAIRS, _FEW = 64, 16, 256, 4
"""The number of random cases that are run first, and their batches, since the cases of shrinking are much alike, and
their number depends on the time; the most pairs of fields that are tried; and the number of smallest failing runs of
which a neighbour must explain one to be in a pair. Chosen, not measured."""
_LARGEST = 1 << 14
"""The most elements of a run: larger ones take too long to be judged under a hundred contracts."""
_STEP = 1.1
"""Two contracts whose widths differ by a smaller factor are equally wide."""
_SPREAD, _ENDS, _OFTEN, _ENOUGH = 1 / 8, (0.02, 0.98), 1 / 2, 64
"""The conditions for a contract that also allows more where the kernel passes: the failure must use it everywhere, and
not in one range of values. An element strays if its error is more than half of what is declared. Unless half of the
elements stray (the third number), an eighth of the others must lie between the straying ones, without 2% of these at
either end. In a softplus that is off by 20 ulp most elements stray; in one that is wrong from 10 to 13, no other
element lies between. At least 64 elements are needed. Chosen."""
_WIDE_WAY = 6.0
"""`WIDE` for another algorithm: Welford's squares allow 5.0 times as much, in the runs that were drawn."""
_USED = 1 / 32
"""The least share of a wider contract's budget that failing runs must use. The worst of a dozen runs of a correct
kernel uses more, and a bug that happens to fit uses less."""


@dataclass(frozen=True)
class Fitting:
    """A neighbouring contract that allows all runs that were tried, compared with the declared one."""

    neighbour: Neighbour
    declared: Contract
    width: float
    """The factor by which the neighbour allows more than the declared contract, in failing runs."""
    typical: float
    """The same factor in the median passing run."""
    used: float
    """The worst err/budget of failing runs under the neighbour."""
    failing: int
    passing: int
    """The numbers of failing and passing runs that it was tried on."""
    spread: float = 1.0
    """The share of not straying elements that lie between straying ones, if the neighbour allows more in passing
    runs."""
    others: int = 0
    """The number of wider neighbours that fit too."""
    meaning: str = ""
    """The difference of the neighbour in plain words."""

    @property
    def excuses(self) -> bool:
        """Whether the neighbour allows more everywhere although errors lie in one range, so that it excuses a bug."""
        return self.typical > ALIKE and self.spread < _SPREAD

    @property
    def telling(self) -> bool:
        """Whether the contract is narrow enough to be stated first: one that fits everything proves nothing. Another
        algorithm only needs to give no number where the kernel fails, and a number where it passes."""
        is_way, breaks_down = self.neighbour.changed == ("algorithm",), self.width == math.inf
        used = self.width <= ALIKE or self.used >= _USED or (is_way and breaks_down)
        return used and self.typical <= (_WIDE_WAY if is_way and not breaks_down else WIDE)

    @property
    def rank(self) -> tuple[bool, float, float, int]:
        """A sort key that puts the narrowest neighbour first: by its width in failing runs, then in passing ones.
        Equally wide ones keep their order, so that "input" comes before a dtype's name."""
        fails, passes = (each if each > ALIKE else 1.0 for each in (self.width, self.typical))
        steps = math.log(min(max(self.width, 1.0), ALIKE), _STEP)
        return not self.telling, fails, passes, round(steps)

    @property
    def told(self) -> FittingContract:
        """The facts for reports."""
        return FittingContract(
            self.neighbour.text, self.neighbour.of(self.declared), self.width, self.typical, self.used,
            self.failing, self.passing, self.others, self.telling, self.meaning,
        )  # fmt: skip


def fitting(trials: Trials, shown: Sequence[tuple[Case, Judgement | None]], over: Callable[[], bool]) -> Fitting | None:
    """Return the neighbouring contract that fits best; None if none fits, if too few failing runs are known, or if the
    time is over. What is tried, and in which order, depends on counts alone. `shown` are the case as it was found and
    as it was shrunk, which must fit."""
    if trials.fresh:
        return None
    try:
        drawn = _drawn(trials, int(shown[0][0].digest[:15], 16))
        failing = _failing(trials, shown)
    except OutOfTimeError:
        return None
    if len(failing) < LEAST:
        return None
    declared, op = trials.target.contract, OPS[trials.target.kernel.op]
    passing = _passing(trials, drawn)
    runs = Runs((*failing, *passing), over)
    meant = _meant(declared, runs)
    known = [each for each in neighbours(op, meant) if runs.tell(each.contract, meant)]
    fit = runs.fitting(known)
    if not fit:  # two fields may be wrong, if each explains a part of the runs
        some = (each for each in known if any(run.ratio(each.contract) is not None for run in failing[:_FEW]))
        near = islice(pairs(list(takewhile(lambda _: not over(), some))), _MOST_PAIRS)
        of_failing = Runs(failing, over)
        fit = runs.fitting(each for each in of_failing.fitting(near) if _may_be_told(each.contract, declared, failing))
    found = [_measured(each, declared, failing, passing) for each in fit]
    found = [each for each in found if not each.excuses and (each.telling or each.width <= MANY)]
    found.sort(key=lambda each: each.rank)
    if not found or over() or not runs.conform(found[0].neighbour.contract):
        return None
    first = found[0]
    said = meaning(op, first.neighbour.contract, declared, first.neighbour.changed)
    return replace(first, others=sum(each.width > first.width for each in found), meaning=said)


def _meant(declared: Contract, runs: Runs) -> Contract:
    """Return the declared contract. If it leaves the dtype of operations open, and all runs have the same dtype, that
    dtype is filled in."""
    computes = runs.computes(declared)
    return replace(declared, compute=min(computes)) if len(computes) == 1 else declared


def _drawn(trials: Trials, key: int) -> list[Case]:
    """Return some cases of a search, after judging them. Raises OutOfTimeError."""
    accepts = trials.target.kernel.capability.accepts
    drawn = [case for case in islice(searched(trials.target, key), _DRAWN) if _is_judged(case) and accepts(case)]
    for start in range(0, len(drawn), _BATCH):
        trials.judge(drawn[start : start + _BATCH])
    return drawn


def _may_be_told(contract: Contract, declared: Contract, failing: Sequence[TargetRun]) -> bool:
    """Whether two changed fields that fit the failing runs can be stated. If they allow anything there they cannot, and
    most of the time would go into passing runs."""
    used = max(run.ratio(contract) or 0.0 for run in failing)
    return used >= _USED or times_as_wide(failing, contract, declared) <= MANY


def _measured(
    each: Neighbour, declared: Contract, failing: Sequence[TargetRun], passing: Sequence[TargetRun]
) -> Fitting:
    width = times_as_wide(failing, each.contract, declared)
    typical = usually_as_wide(passing, each.contract, declared) if passing else width
    used = max(run.ratio(each.contract) or 0.0 for run in failing)
    spread = _spread_of((*failing, *passing), each.contract, declared) if typical > ALIKE else 1.0
    return Fitting(each, declared, width, typical, used, len(failing), len(passing), spread)


def _spread_of(runs: Sequence[TargetRun], contract: Contract, declared: Contract) -> float:
    """Return `Fitting.spread`; 1 if there are too few elements, or if most stray."""
    values, strays = np.concatenate([run.strays(contract, declared, ALIKE) for run in runs]).T
    if len(values) < _ENOUGH or strays.mean() >= _OFTEN:
        return 1.0
    low, high = np.quantile(values[strays > 0], _ENDS) if strays.any() else (0.0, 0.0)
    others = values[strays == 0]
    return float(((others > low) & (others < high)).mean())


def _failing(trials: Trials, shown: Sequence[tuple[Case, Judgement | None]]) -> list[TargetRun]:
    """Return the failing runs to try, the smallest first, since they rule out neighbours quickly: the shown ones, and
    others from the clearest to the least clear. Return an empty list if a shown one fails in another way than by its
    values."""
    first = {case.digest: _shown(trials, case, each) for case, each in shown if each is not None and _is_judged(case)}
    if None in first.values():
        return []
    known = [
        (judgement, judgement.of)
        for judgement in trials.known.values()
        if judgement is not None
        and isinstance(judgement.of, Case)
        and judgement.verdict in (Verdict.FAIL_NUMERIC, Verdict.FAIL_NONFINITE)
        and judgement.case not in first
        and _is_judged(judgement.of)
        and not trials.is_explained(judgement.of)
    ]
    known.sort(key=lambda each: -each[0].ratio)
    finite = [each for each in known if each[0].verdict is Verdict.FAIL_NUMERIC]
    others = _spread([each for each in known if each not in finite], max(_NONFINITE, _FAILING - len(finite)))
    chosen = [*_spread(finite, _FAILING - min(len(others), _NONFINITE)), *others][:_FAILING]
    runs = [*first.values(), *(TargetRun.failed(case, judgement) for judgement, case in chosen)]
    return sorted((run for run in runs if run is not None), key=lambda run: run.case.elements)


def _shown(trials: Trials, case: Case, judgement: Judgement) -> TargetRun | None:
    """Return the run of a finding, running it again if its outputs were not kept."""
    if judgement.outcome is not None:
        return TargetRun.failed(case, judgement)
    (again,) = trials.judge([case])
    return None if again is None else TargetRun.failed(case, again)


def _passing(trials: Trials, drawn: Sequence[Case]) -> list[TargetRun]:
    """Return runs of passing cases of a search; they are run again, since passing runs are not kept."""
    judged = zip(drawn, trials.judge(drawn), strict=True)
    cases = [case for case, judgement in judged if judgement is not None and judgement.verdict is Verdict.PASS]
    chosen = _spread(cases, _PASSING)
    if not chosen:
        return []
    outcomes: list[dict[str, Outcome]] = trials.pool.submit(chosen).outcomes()
    name = trials.target.id
    return [TargetRun(case, by[name]) for case, by in zip(chosen, outcomes, strict=True) if name in by]


def _is_judged(case: Case) -> bool:
    return 0 < case.elements <= _LARGEST


def _spread(items: Sequence[_T], count: int) -> list[_T]:
    """Return at most `count` of the items, evenly spaced."""
    return list(items) if len(items) <= count else [items[at * len(items) // count] for at in range(count)]
