"""Counterfactuals: runs of the smallest failing case with one thing changed, which anybody can repeat. Declarations:
whether a neighbouring contract allows what a kernel returned against its own contract."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any, TypeVar

import numpy as np

from fuzz.contracts.runs import Runs, TargetRun, times_as_wide, usually_as_wide
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import GIVEN, Draw, Frame
from fuzz.core.base.errors import UsageError
from fuzz.core.base.outcome import Outcome
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate import storage
from fuzz.core.generate import variations as vary
from fuzz.core.generate.given import VALUES, judged_values
from fuzz.core.generate.layouts import LAYOUT_CLASSES, classes_of
from fuzz.core.judge.judge import Judgement
from fuzz.explain.evidence.refutation import searched
from fuzz.explain.explanation import ALIKE, MANY, WIDE, Counterfactual, FittingContract
from fuzz.explain.stages.forms import meaning
from fuzz.explain.trial.trial import OutOfTimeError, Trials
from oracles.dtypes import DTYPES
from oracles.formula.contract import Contract
from oracles.neighbours import Neighbour, neighbours, pairs
from oracles.operand import OUTER
from oracles.ops import OPS

Value = int | float | str
_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129, 256)
"""The extents that each dimension is tried with: those of vectors and tiles, one more, and one less."""
_SIZES_SLOWLY = (1, 2, 4, 8, 16, 64)
"""The extents that are tried if a case takes milliseconds."""
_BATCHES = (1, 2, 3, 8, 64)
_PRESENCE = ("there", "absent")
_OFFSETS = (0, 1, 2, 4, 8)
"""The numbers of elements between the guard page and the first element that are tried."""
_MOST_ELEMENTS = 1 << 26
"""The most elements of a tensor that a user may ask for: 512 MB in f64."""


@dataclass(frozen=True)
class _Edit:
    """Something that can be changed about a case: the values to try, a reader of values, and a way to change a draw."""

    subject: str
    own: Value
    values: Sequence[Value]
    read: Callable[[str], Any]
    make: Callable[[Draw, Any], Draw]


def counterfactuals(trials: Trials, case: Case) -> tuple[Counterfactual, ...]:
    """Return the results of changing one thing at a time about the case; changes that make it pass come first.

    Changes of the first dimension run even if the time is over. The result is empty if the case fits no draw, or passes
    with the strides that other extents require, since then more than one thing would change.
    Raises KeepsStateError where the first change that makes it pass does not do so in a new process: the number of
    calls decides then.
    """
    if not Frame(case).fits():
        return ()
    trials = replace(trials, family=replace(trials.family, clear=0.0, wide=True))
    hurried, told = replace(trials, out_of_time=lambda: False), list[Counterfactual]()
    with contextlib.suppress(OutOfTimeError, CaseError):
        base = vary.base_of(case)
        if not hurried.fails(vary.made(base)):
            return ()
        for place, edit in enumerate(_edits(base, trials)):
            found = _tried(hurried if place == 0 else trials, base, edit)
            if found.passing and not any(each.passing for each in told):
                hurried.confirm(vary.made(edit.make(base, found.passing[0])))
            told += [found] if found.passing or found.failing else []
    return held_against(told, ())


def _tried(trials: Trials, base: Draw, edit: _Edit) -> Counterfactual:
    """Run a draw with each value of one thing. Raises OutOfTimeError."""
    made = list[tuple[Value, Case]]()
    for value in edit.values:
        with contextlib.suppress(CaseError):
            made.append((value, vary.made(edit.make(base, value))))
    passing, failing = list[Value](), list[Value]()
    for (value, case), judgement in zip(made, trials.judge([case for _, case in made]), strict=True):
        if judgement is not None and judgement.verdict is Verdict.PASS:
            passing.append(value)
        elif trials.holds(case, judgement):
            failing.append(value)
    return Counterfactual(edit.subject, edit.own, tuple(passing), tuple(failing))


def held_against(told: Iterable[Counterfactual], failing: Iterable[Case]) -> tuple[Counterfactual, ...]:
    """Return the counterfactuals without the passing values that another failing case has: these values prove
    nothing."""
    had = defaultdict[str, list[Value]](list)
    for base in (vary.base_of(case) for case in failing if Frame(case).fits()):
        for edit in _edits(base, None):
            had[edit.subject].append(edit.own)
    found = []
    for each in told:
        own = had[each.subject]
        passing, refuted = ([v for v in each.passing if (v in own) is wanted] for wanted in (False, True))
        told_of = replace(each, passing=tuple(passing), refuted=(*each.refuted, *refuted))
        found.append(replace(told_of, against=each.against + len(own)))
    return tuple(sorted(found, key=lambda each: not each.passing))


def edited(case: Case, subject: str, value: str) -> Case:
    """Return the case with one thing changed, named as in a counterfactual. Raises UsageError."""
    about = f"--set {subject}={value}"
    if not Frame(case).fits():
        raise UsageError(f"{about}: the tensors of this case are not of the shapes that its op asks for")
    base = vary.base_of(case)
    edits = {edit.subject: edit for edit in _edits(base, None)}
    if subject not in edits:
        raise UsageError(f"{about}: there is no {subject!r} to change; there are {', '.join(edits)}")
    edit = edits[subject]
    try:
        draw = edit.make(base, edit.read(value))
        if max(math.prod(draw.shape(part.name)) for part in draw.parts) > _MOST_ELEMENTS:
            raise UsageError(f"{about}: a tensor would have more than {_MOST_ELEMENTS:,} elements")
        return vary.made(draw)
    except (ValueError, CaseError) as error:
        raise UsageError(f"{about}: {error}") from error


def _edits(base: Draw, trials: Trials | None) -> Iterator[_Edit]:
    """Yield the things that can be changed about a draw, with the values that are tried on the trials' target."""
    op, able = OPS[base.op], trials.target.kernel.able if trials is not None else None
    slowly = trials is not None and trials.target.costly
    own = base.part(op.main)
    for dim, size in base.sizes.items():
        if dim not in op.fixed:
            near = {size - 1, size + 1, 2 * size, *(_SIZES_SLOWLY if slowly else _SIZES)} - {size}
            yield _Edit(dim, size, sorted(n for n in near if n > 0), int, _sized(dim))
    if OUTER in op.inputs[0].axes and base.batch:
        rows = vary.batch_of(base)
        yield _Edit(op.batch_name, rows, [n for n in _BATCHES if n != rows], int, vary.sized)
    dtypes = [each for each in (able.dtypes if able is not None else DTYPES) if each != own.dtype]
    yield _Edit("dtype", own.dtype, dtypes, _one_of(DTYPES), vary.of_dtype)
    for parameter in op.parameters:
        unset = parameter.values[0] if parameter.neutral is None else parameter.neutral
        now = base.parameters.get(parameter.name, unset)
        others = [v for v in vary.values_of(base, parameter) if v != now]
        yield _Edit(parameter.name, now, others, _parameter, _with_parameter(parameter.name))
    judged = judged_values(trials.target.contract) if trials is not None else VALUES
    values = [each for each in judged if each not in (own.recipe, GIVEN)]
    yield _Edit("values", own.recipe, values, _one_of(VALUES), lambda draw, recipe: vary.with_values(draw, recipe, 1))
    for name in storage.grids(base):
        laid = base.part(name).placement.layout
        classes = [each for each in classes_of(len(base.shape(name))) if each != laid]
        yield _Edit(f"layout of {name}", laid, classes, _one_of(LAYOUT_CLASSES), _laid_out(name))
    offset = own.placement.offset
    yield _Edit("offset", offset, _OFFSETS, int, lambda draw, other: storage.placed_at(draw, "before", other))
    for operand in op.operands:
        if operand.optional:
            there = operand.name in {part.name for part in base.parts}
            own_word, other = _PRESENCE if there else _PRESENCE[::-1]
            yield _Edit(operand.name, own_word, [other], _one_of(_PRESENCE), _with_operand(operand.name))


def _sized(dim: str) -> Callable[[Draw, int], Draw]:
    return lambda draw, size: vary.extended(draw, {dim: size})


def _one_of(words: Iterable[str]) -> Callable[[str], str]:
    """Return a reader that accepts one of these words, and raises ValueError for others."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"it can be {', '.join(words)}")
        return text

    return read


def _parameter(text: str) -> float:
    """Return a parameter, rounded to f32 as kernels take it."""
    return float(np.float32(text))


def _with_parameter(name: str) -> Callable[[Draw, float], Draw]:
    return lambda draw, value: draw.with_params(**{name: value})


def _laid_out(name: str) -> Callable[[Draw, str], Draw]:
    return lambda draw, layout: storage.laid_out(draw, {name: layout})


def _with_operand(name: str) -> Callable[[Draw, str], Draw]:
    def make(draw: Draw, how: str) -> Draw:
        is_there = name in {part.name for part in draw.parts}
        if is_there == (how == "there"):
            return draw
        return draw.without(name) if is_there else vary.with_operand(draw, name)

    return make


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
