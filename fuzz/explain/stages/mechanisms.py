"""Mechanisms: what a kernel does wrong, if one more experiment shows it. The experiments are rows of one table. They
have a bounded number of runs and come before any search, so that a case is described in the same words at any speed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal

import numpy as np

from fuzz.contracts.runs import TargetRun
from fuzz.core.base.case import Case, CaseError, Layout, Tensor, contiguous
from fuzz.core.base.draw import Frame, Placement
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate import variations as vary
from fuzz.core.generate.layouts import nearer
from fuzz.core.laws.transforms import IMPULSE
from fuzz.explain.explanation import Mechanism
from fuzz.explain.stages.bench import (
    TELLING,
    Bench,
    allowed,
    chosen_gap,
    exact,
    is_finite,
    of_transform,
    other_values,
    received,
    truth_of,
    used_of,
    valued,
    values_of,
    with_tensor,
)
from fuzz.explain.stages.forms import OTHERS, SAME, lost_step, read, rewritten, roundings
from fuzz.explain.trial.trial import OutOfTimeError, Trials
from oracles.doubledouble import F64, head
from oracles.dtypes import FORMATS
from oracles.elementary import FormulaError
from oracles.enclosure import compare
from oracles.formula.contract import Contract
from oracles.formula.trace import REDUCTIONS
from oracles.op import Op
from oracles.operand import OUTER, Operand
from oracles.rounding import round_to
from oracles.summation import NumericsError

_LONGEST = 128
"""The longest dimension along which an input is changed index by index. Chosen, not measured."""
_NARROWER = ("bf16", "f16")
"""The dtypes to which others may be rounded, the coarsest first, since its numbers may all be numbers of the next."""
_LARGEST = 1 << 12
"""The most elements of a case, so that its runs take hardly any time. Chosen, not measured."""
_SEEDS = (1, 2, 3)
"""The seeds of ordinary values. A kernel that looks like another formula with one seed hardly ever does with three."""
_STEPS, _HALVINGS = 33, 8
"""The number of magnitudes between 1 and the largest number that are tried, and how often the gap around the limit is
halved: for f32 the limit is then known to 1%."""
_LONGER, _FAR = 8, 4.0
"""A limit of magnitude is stated only if rows 8 times as long pass at 4 powers of two within it. Otherwise the length
matters: the limit of a product of 88 numbers is the eighth root of that of 11, that of a sum of squares is a third."""
_ALONE = 3
"""The most inputs that are tried one by one, before all of them together. Chosen, not measured."""
_INSIDE = 64
"""The most roundings of a step that are tried, two for each step. Chosen, not measured."""
_FURTHER = (2.0, 4.0)
"""The factors by which all inputs are moved away from 0, to see whether only their distances matter."""
_TIED = 2.0**-18
"""The largest relative distance of two values that tie in f32: some dozens of roundings. Chosen, not measured."""
_KNOWN, _SPEAKING, _MADE_USE = 8, 4, 1 / 32
"""The number of failing cases that another form must explain too, how many of them may tell the step, and the least
share of its budget that they must use: the worst of a dozen runs of a correct kernel uses more, see
`fuzz.explain.stages.counterfactuals`."""
_CLOSER = 1 / 64
"""A result counts as that of another formula if its distance from it is at most this share of the distance between that
formula and the declared one, wherever these differ by `TELLING` times the allowed error. Chosen, not measured."""


def _ignored(bench: Bench) -> Mechanism | None:
    """Return the inputs whose other values give the same bits, although these cannot be right for both. If the first of
    two calls was right, the second may just repeat its result, which shows in shapes that were not used before. An
    input counts as ignored only if it is so in both shapes: a clipped result may be equal in a few elements by
    chance."""
    if bench.has_places:
        return None
    found = [_ignored_in(bench, vary.made(draw)) for draw in (bench.draw, bench.elsewhere)]
    kept = next((told for conforms, told in found if conforms and told), None)
    if told := kept or [name for name in found[0][1] if name in found[1][1]]:
        every = len(told) == len(bench.case.inputs)
        return Mechanism("ignores" if not kept else "stale" if every else "keeps", "" if every else " and ".join(told))
    return None


def _ignored_in(bench: Bench, base: Case) -> tuple[bool, list[str]]:
    """Return whether a case passes, and the inputs whose other values give the same bits."""
    names = [each.name for each in bench.op.inputs if not each.integers and each.name in base.inputs]
    runs = bench.ran([base, *(with_tensor(base, name, other_values(base.inputs[name])) for name in names)])
    told = [name for name, run in zip(names, runs[1:], strict=False) if bench.ignores(runs[0], run)]
    return bool(told) and runs[0].conforms(bench.trials.target.contract), told


def _lost(bench: Bench) -> Mechanism | None:
    """Return an input with the indices along a dimension at which its values wrongly do not matter; None if none."""
    base = vary.made(bench.draw)
    returned = [each for each in bench.op.outputs if each.name in base.outputs]
    kept = {dim for each in returned for dim in _dims(bench.op, base, each)}
    for operand in bench.op.inputs:
        tensor = base.inputs.get(operand.name)
        for axis, dim in enumerate(_dims(bench.op, base, operand)) if tensor is not None else ():
            assert tensor is not None
            extent = tensor.layout.shape[axis]
            if operand.integers or not 1 < extent <= _LONGEST or dim in kept:
                continue
            ways = [(at, by) for at in range(extent) for by in (4.0, -4.0)]  # values of one sign may be clipped
            places = (other_values(tensor, (slice(None),) * axis + (at,), by) for at, by in ways)
            runs = bench.ran([base, *(with_tensor(base, operand.name, each) for each in places)])
            same = [bench.ignores(runs[0], run) for run in runs[1:]]
            lost = tuple(at for at in range(len(same) // 2) if all(same[2 * at : 2 * at + 2]))
            if 0 < len(lost) < extent:
                return Mechanism("loses", operand.name, dim, lost, extent)
    return None


def _dims(op: Op, case: Case, operand: Operand) -> list[str]:
    """Return the names of a tensor's dimensions, one for each axis."""
    rank = len((case.inputs.get(operand.name) or case.outputs[operand.name]).layout.shape)
    if op.any_axis and operand.name in op.alike:
        return [op.row if axis == Frame(case).axis else op.batch_name for axis in range(rank)]
    outer = [op.batch_name] * (rank + 1 - len(operand.axes))
    return [dim for each in operand.axes for dim in (outer if each == OUTER else [each])]


def _laid_out(bench: Bench) -> Mechanism | None:
    """Return the inputs that must be contiguous for the case to pass, with the same values; a kernel may look at the
    strides of extents of 1, too."""
    base = vary.base_of(bench.case)
    apart = [n for n, each in bench.case.inputs.items() if each.layout.strides != contiguous(each.layout.shape).strides]
    for names in [*([name] for name in apart), *([apart] if len(apart) > 1 else [])]:
        near = {name: found for name in names if (found := nearer(bench.case.inputs[name].layout)) is not None}
        ways: Sequence[tuple[Literal["apart", "layout"], Mapping[str, Layout | None]]]
        ways = ("apart", near), ("layout", dict.fromkeys(names))
        for kind, own in ways:
            parts = [base.part(name) for name in own]
            places = [Placement(guard=part.placement.guard, offset=part.placement.offset) for part in parts]
            strides = [None if each is None else each.strides for each in own.values()]
            moved = zip(parts, places, strides, strict=True)
            together = base.with_parts(*(replace(a, placement=replace(b, strides=c)) for a, b, c in moved))
            (judgement,) = bench.trials.judge([vary.made(together)]) if parts else (None,)
            if judgement is not None and judgement.verdict is Verdict.PASS:
                return Mechanism(kind, " and ".join(own))
    return None


def _unless(bench: Bench) -> Mechanism | None:
    """Return an input that decides: with only zeros or ones in it the kernel is right, with other ordinary values
    wrong. Zeros that make another input irrelevant do not count."""
    draws = [replace(draw, seed=seed) for draw in (bench.draw, bench.elsewhere) for seed in _SEEDS]
    bases = [vary.made(draw) for draw in draws]
    if bench.has_places or bench.passed(bases) != [False] * len(bases):
        return None
    told = list[str]()
    for operand in bench.op.inputs:
        name = operand.name
        if operand.integers or name == bench.op.main or name not in bases[0].inputs:
            continue
        for value in (0.0, 1.0)[: 2 if len(operand.axes) < 2 else 1]:  # a matrix of ones makes sums
            cases = [
                with_tensor(case, name, valued(case.inputs[name], np.full(values_of(case.inputs[name]).shape, value)))
                for case in bases
            ]
            if bench.passed(cases) == [True] * len(cases) and (value or bench.uses_all(cases[0], name)):
                told.append(f"{name} = {value:g}")
                break
    return Mechanism("unless", " or ".join(told)) if told else None


def _unordered(bench: Bench) -> Mechanism | None:
    """Return an input whose order along some dimensions wrongly makes no difference, except for rounding."""
    bases = [vary.made(replace(bench.elsewhere, seed=seed)) for seed in _SEEDS]
    returned = {
        dim for each in bench.op.outputs if each.name in bases[0].outputs for dim in _dims(bench.op, bases[0], each)
    }
    for operand in bench.op.inputs if not bench.has_places else ():
        dims, told = _dims(bench.op, bases[0], operand) if operand.name in bases[0].inputs else [], list[str]()
        for axis, dim in enumerate(dims if not operand.integers else []):
            turned = [with_tensor(case, operand.name, _reversed(case.inputs[operand.name], axis)) for case in bases]
            pairs = [*zip(bench.ran(bases), bench.ran(turned), strict=False)] if dim not in returned else []
            alike = {bench.is_alike(*pair) for pair in pairs}
            if True in alike and False not in alike:
                told.append(dim)
        if told:
            return Mechanism("unordered", operand.name, dim=" and ".join(told))
    return None


def _reversed(tensor: Tensor, axis: int) -> Tensor:
    return valued(tensor, np.flip(values_of(tensor).reshape(tensor.layout.shape), axis))


def _of_another_form(bench: Bench) -> Mechanism | None:
    """Return another formula whose results the kernel returns, wherever it differs from the declared one."""
    drawn = [replace(draw, seed=seed) for draw in (bench.draw, bench.elsewhere) for seed in _SEEDS]
    runs, contract = [*bench.ran([bench.case]), *bench.ran([*map(vary.made, drawn)])], bench.trials.target.contract
    for form in OTHERS if runs else ():
        for other in rewritten(bench.op, form):
            told = [_are_those(run, exact(truth_of(run, other), run.case), contract) for run in runs]
            if True in told and False not in told:
                return Mechanism("form", form.words)
    return None


def _taken(bench: Bench) -> Mechanism | None:
    """Return inputs that the kernel rounds to a narrower dtype first: rounded, they give the same bits, and right
    ones."""
    base, contract = vary.made(bench.elsewhere), bench.trials.target.contract
    names = [each.name for each in bench.op.inputs if base.inputs.get(each.name) and not each.integers]
    for dtype in _NARROWER:
        for some in ([], *([name] for name in names))[not names[1:] :] if not bench.has_places else ():
            rounded = {
                name: valued(base.inputs[name], round_to(values_of(base.inputs[name]), FORMATS[dtype]))
                for name in some or names
            }
            runs = bench.ran([base, replace(base, inputs={**base.inputs, **rounded})])
            if runs and bench.ignores(*runs) and runs[1].conforms(contract):
                return Mechanism("takes", " and ".join(some or names), step=dtype)
    return None


def _narrow(bench: Bench) -> Mechanism | None:
    """Return a narrower dtype to which all results belong, if their errors are those of calculating in that dtype, or
    of one rounding to it."""
    if bench.has_places:
        return None
    runs = bench.ran([vary.made(replace(bench.elsewhere, seed=seed)) for seed in _SEEDS])
    sums = all(node.kind in REDUCTIONS for node in read(bench.op).outputs.values())
    for dtype in _NARROWER if runs else ():
        form, contract = FORMATS[dtype], replace(bench.trials.target.contract, compute=dtype)
        if not all(np.array_equal(each, round_to(each, form)) for run in runs for each in received(run).values()):
            continue
        if any(run.conforms(bench.trials.target.contract) or run.ratio(contract) is None for run in runs):
            continue
        within = ((allowed(run, bench.trials.target.contract), received(run)) for run in runs)
        once = all(
            ((round_to(mine[name][0], form) <= each) & (each <= round_to(mine[name][1], form))).all()
            for mine, got in within
            for name, each in got.items()
        )
        return Mechanism(
            "narrow", "rounds its results to" if once else "sums in" if sums else "calculates in", step=dtype
        )
    return None


def _inside(bench: Bench) -> Mechanism | None:
    """Return a step of the formula, if the results are those of rounding this step to a narrower dtype."""
    drawn = [vary.made(replace(bench.elsewhere, seed=seed)) for seed in _SEEDS]
    runs = [] if bench.has_places else bench.ran([bench.case, *drawn])
    for dtype in _NARROWER if runs else ():
        ways = zip(*(roundings(run.judge.oracle.truth.op, dtype) for run in runs), strict=True)
        for steps in islice(ways, _INSIDE):
            told = {
                _are_those(run, made(), bench.trials.target.contract)
                for run, (_, made) in zip(runs, steps, strict=True)
            }
            if True in told and False not in told:
                return Mechanism("inside", steps[0][0], step=dtype)
    return None


def _are_those(run: TargetRun, others: Mapping[str, F64], contract: Contract) -> bool | None:
    """Return whether the results are these values wherever these differ from the right ones; None if they differ
    nowhere."""
    came, close = received(run), list[np.bool_]()
    with np.errstate(all="ignore"):
        mine = run.judge.oracle.truth.op.enclose(contract, run.case.structured)
        for name, each in mine.items():
            away, (low, high) = np.abs(others[name] - head(each.centre)), each.outer
            apart = np.isfinite(away) & (away > TELLING * (high - low))
            close += list((np.abs(came[name] - others[name]) <= _CLOSER * away)[apart])
    return all(close) if close else None


def _until(bench: Bench) -> Mechanism | None:
    """Return the magnitude, or the distance from 0, beyond which the kernel fails and up to which it passes with
    ordinary values. The values of the case must be beyond it."""
    main = bench.op.main
    floats = [each.name for each in bench.op.inputs if not each.integers and each.name in bench.case.inputs]
    names = sorted((each for each in floats if bench.case.inputs[each].dtype in FORMATS), key=lambda each: each != main)
    if main not in names or bench.has_places:
        return None
    form = FORMATS[bench.case.inputs[main].dtype]
    scales, shifts = np.linspace(0.0, form.emax, _STEPS), np.arange(0.0, form.precision)
    sizes = {name: np.abs(values_of(bench.case.inputs[name])) for name in names}
    least = {name: float(each.min(where=each > 0, initial=1.0)) for name, each in sizes.items()}
    most = {name: float(each.max(initial=0.0)) for name, each in sizes.items()}
    if bench.passed([_changed_all(bench, lambda values, limit: values, names, 1.0)]) != [True]:
        return None

    def scaled(some: Sequence[str]) -> Mechanism | None:
        about, far, near = " and ".join(some), max(most[each] for each in some), min(least[each] for each in some)
        found = _from(bench, lambda values, limit: values * limit, some, scales) if far > 1 else None
        if found is not None and found[0] <= far:
            return Mechanism("scale", about, limit=found[0], step=_lossy(bench, found[1]))
        found = _from(bench, _lowered, some, -scales) if near < 1 else None
        if found is not None and found[0] >= near:
            return Mechanism("down", about, limit=found[0], step=_lossy(bench, found[1]))
        return None

    def shifted(some: Sequence[str]) -> Mechanism | None:
        if found := _from(bench, lambda values, limit: values + limit, some, shifts):
            origin = "" if some == names else _near(bench, names, found[0])
            if found[0] <= sum(most[each] for each in (names if origin else some)) + 1:
                return Mechanism("shift", " and ".join(some), dim=origin, limit=found[0], step=_lossy(bench, found[1]))
        return None

    together = [names] if len(names) > 1 else []
    for way, some in (
        (scaled, [main]), *((shifted, some) for some in ([main], *together)),
        *((scaled, some) for some in (*([name] for name in names[1:_ALONE]), *together)),
    ):  # fmt: skip
        if told := way(some):
            return told
    return None


def _lowered(values: F64, limit: float) -> F64:
    sizes = np.abs(values)
    least = float(sizes.min(where=sizes > 0, initial=1.0))
    return values * (limit / least)


def _near(bench: Bench, names: Sequence[str], limit: float) -> str:
    """Return the other inputs if only their distance from the first one matters, and not the distance of all from 0; ''
    if it does."""
    far = (_changed_all(bench, lambda values, limit: values + limit, names, limit * times) for times in _FURTHER)
    return " and ".join(names[1:]) if bench.passed([*far]) == [True] * len(_FURTHER) else ""


_Way = Callable[[F64, float], F64]


def _from(bench: Bench, way: _Way, names: Sequence[str], powers: Sequence[float] | F64) -> tuple[float, Case] | None:
    """Return the magnitude from which on the kernel fails, and a case with it. Inputs are scaled to at most 1 first,
    then changed by powers of two. Return None if the kernel does not pass up to one power and fail at the next two, or
    if longer rows fail far below it."""

    def at(power: float, longer: int = 1) -> Case:
        return _changed_all(bench, way, names, 2.0**power, longer)

    if bench.passed([at(float(powers[0]))]) != [True]:
        return None
    passed = bench.passed([at(float(power)) for power in powers])
    first = passed.index(False) if False in passed else 0
    if not first or passed[:first] != [True] * first or passed[first : first + 2] != [False] * 2:
        return None
    low, high = float(powers[first - 1]), float(powers[first])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if bench.passed([at(middle)]) == [True] else (low, middle)
    is_reduced = any(bench.op.row in node.over for node in read(bench.op).nodes)
    far_below = [at(high - np.copysign(min(_FAR, abs(high)), high), _LONGER)] if is_reduced else []
    return None if False in bench.passed(far_below) else (2.0**high, at(high))


def _changed_all(bench: Bench, way: _Way, names: Sequence[str], limit: float, longer: int = 1) -> Case:
    draw = bench.elsewhere
    case = base = vary.made(vary.extended(draw, {bench.op.row: longer * draw.n}) if longer > 1 else draw)
    for name in names:
        tensor, values = base.inputs[name], values_of(base.inputs[name])
        most = [np.abs(values).max(where=side, initial=0.0) or 1.0 for side in (values < 0, values >= 0)]
        changed = way(values / np.where(values < 0, *most), limit)  # values of one sign alone may have a limit
        case = with_tensor(case, name, valued(tensor, changed))
    return case


def _step(bench: Bench) -> Mechanism | None:
    """Return a step that loses accuracy, if the results are those of another form of the formula with this step."""
    step = "" if bench.has_places else _lossy(bench, bench.case)
    return Mechanism("step", "", step=step) if step else None


def _lossy(bench: Bench, case: Case) -> str:
    """Return the step of another form of the formula that loses accuracy in the case; '' if there is none. The form
    must allow the results of this and of other cases, and they must use its budget. The failing case that was found
    first is always among them. Cases in which something overflows say nothing about the steps of other cases."""
    drawn = [replace(draw, seed=seed) for draw in (bench.draw, bench.elsewhere) for seed in _SEEDS]
    runs = bench.ran([case, bench.case, *map(vary.made, drawn)])
    runs += _failing(bench)
    contract = replace(bench.trials.target.contract, nonfinite="ieee", denormals="flush")
    for form in SAME if runs else ():
        for other in rewritten(bench.op, form):
            used = [used_of(run, other, contract) for run in runs]
            if min(used) >= 0 and max(used) >= _MADE_USE:
                shares = {run: (is_finite(run), share) for share, run in zip(used, runs, strict=True) if share}
                others = sorted(shares, key=shares.__getitem__, reverse=True)[:_SPEAKING]
                if case is not bench.case:  # near a limit, rounding errors hardly exceed the allowed error
                    others = runs[1:2]
                steps = ((run, _told(run, other, contract)) for run in [runs[0], *others])
                if step := next((of for run, of in steps if of and (run is runs[0] or not of.endswith("flows"))), ""):
                    return step
    return ""


def _failing(bench: Bench) -> list[TargetRun]:
    """Return some failing cases that are known: the first that was found, and then those that are off by most."""
    known = [each for each in bench.trials.known.values() if each is not None]
    known = [*known[:1], *sorted(known, key=lambda each: -each.ratio)]
    failed = (TargetRun.failed(each.of, each) for each in known if isinstance(each.of, Case))
    return [run for run in islice(failed, _KNOWN) if run is not None and run.case.elements <= _LARGEST]


def _told(run: TargetRun, other: Op, contract: Contract) -> str:
    """Return the step of another op in which the value is lost."""
    got, truth = received(run), run.judge.oracle.truth.op
    with np.errstate(all="ignore"):
        within = truth.enclose(contract, run.case.structured)
        wrong = {name: compare(each, got[name]).failing for name, each in within.items()}
        return lost_step(truth_of(run, other), within, wrong, got, truth.settled(contract).compute)


def _tied(bench: Bench) -> Mechanism | None:
    """Return the largest gap between a chosen value and the right one, if in all failing cases that are known all are
    equal except for rounding. In a single case they may be so by chance, as where all elements are near each other."""
    gaps = [chosen_gap(run) for run in [*bench.ran([bench.case]), *_failing(bench)]]
    widest = max((math.inf if gap is None else gap for gap in gaps), default=0.0)
    return Mechanism("tie", "", limit=widest) if 0.0 < widest <= _TIED else None


_Experiment = Callable[[Bench], Mechanism | None]
TABLE: tuple[_Experiment, ...] = (
    _laid_out, _ignored, _lost, of_transform, _of_another_form, _tied, _taken, _narrow, _inside, _until, _step,
    _unless, _unordered,
)  # fmt: skip
"""The experiments, the plainest mechanism first."""
LOSSY = (_step,)
"""The experiments that find a step which loses accuracy."""


def mechanism(trials: Trials, case: Case, known: tuple[_Experiment, ...] = TABLE) -> Mechanism | None:
    """Return what the kernel does wrong, if an experiment of the table shows it on the smallest case. If the case is
    large, or does not fail by its values, only its strides are tried."""
    family = trials.family
    if family.law is not None and family.law.name == IMPULSE.name:
        known = (of_transform,)
    elif trials.fresh or family.law is not None or family.name == "accepted invalid":
        return None
    if not Frame(case).fits() or not case.elements or any(each.alias for each in case.inputs.values()):
        return None
    with contextlib.suppress(OutOfTimeError, CaseError):
        if found := next(_found(_bench(trials, case), [each for each in known if each is _laid_out]), None):
            return found
        small = case if case.elements <= _LARGEST else _smallest(trials)
        if (family.name == "values" or family.law is not None) and small is not None:
            return next(_found(_bench(trials, small), [each for each in known if each is not _laid_out]), None)
    return None


def _bench(trials: Trials, case: Case) -> Bench:
    return Bench(trials, case, vary.ordinary(vary.filled(vary.base_of(case)), 1))


def _smallest(trials: Trials) -> Case | None:
    """Return the smallest failing case among the known ones, if it is not too large."""
    failing = (each for each in trials.known.values() if each is not None and trials.family.holds(each))
    cases = (each.of for each in failing if isinstance(each.of, Case) and Frame(each.of).fits() and each.of.elements)
    return min((each for each in cases if each.elements <= _LARGEST), key=lambda each: each.elements, default=None)


def _found(bench: Bench, table: Sequence[_Experiment]) -> Iterator[Mechanism]:
    for experiment in table:
        with contextlib.suppress(CaseError, NumericsError, FormulaError):
            if found := experiment(bench):
                yield found
