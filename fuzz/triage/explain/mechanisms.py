"""Mechanisms: what a kernel does wrong, where one more experiment shows it. Each is a row of one table.

They are tried before any search, in a bounded number of runs: a failing case is told in the same words whatever the
time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from fuzz.base.case import Case, CaseError, Tensor, contiguous
from fuzz.base.draw import Draw, Frame, Placement
from fuzz.base.dtypes import numbers, quantise
from fuzz.base.outcome import Outcome, Status
from fuzz.base.verdict import Verdict
from fuzz.contracts.runs import Run
from fuzz.generate import variations as vary
from fuzz.judge.values import problem_of
from fuzz.triage.explain.forms import OTHERS, SAME, lost_step, read, rewritten
from fuzz.triage.explanation import Mechanism
from fuzz.triage.trial.trial import OutOfTimeError, Trials
from oracles.doubledouble import F64, head
from oracles.dtypes import FORMATS
from oracles.elementary import FormulaError
from oracles.enclosure import compare
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.node import Node
from oracles.formula.trace import REDUCTIONS, Trace
from oracles.op import Op
from oracles.operand import OUTER, Operand
from oracles.ops import OPS
from oracles.rounding import round_to
from oracles.summation import NumericsError
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth

_LONGEST = 128
"""The places along a dimension at which an input is changed one by one. Chosen, not measured."""
_NARROWER = ("bf16", "f16")
"""The dtypes that others are rounded to, the coarsest first, whose numbers may all be of the next as well."""
_LARGEST = 1 << 12
"""The elements of a case that is looked at: a run takes no time to speak of. Chosen, not measured."""
_SEEDS = (1, 2, 3)
"""Draws of ordinary values. What looks like another formula on one hardly ever does on three."""
_UNUSUAL = (11, 13, 7, 5, 3)
"""Extents in which what a kernel keeps of earlier calls is of none, and no division by n - 1 is one by 0."""
_PASSED = {Verdict.PASS: True, Verdict.FAIL_NUMERIC: False, Verdict.FAIL_NONFINITE: False}
_STEPS, _HALVINGS = 33, 8
"""The magnitudes that are tried between 1 and the largest number, and how often what lies between two of them is cut in
half: for f32 the limit is known to 1% then."""
_FURTHER = (2.0, 4.0)
"""How many times as far from 0 as one input may be all of them are, where only what lies between them decides."""
_TIED = 2.0**-18
"""Values tie in f32 that are as near to each other as some dozens of roundings. Chosen, not measured."""
_KNOWN, _MADE_USE = 8, 1 / 32
"""The failing cases that another form must explain besides, and the share of what it allows that must be made use of:
of correct kernels the worst of a dozen runs has a larger one, as in `fuzz.triage.explain.declaration`."""
_CLOSER, _TELLING = 1 / 64, 16.0
"""A result is that of another formula which is so much closer to it than to the declared one, wherever the two differ
by this many times what is allowed. Chosen, not measured."""


@dataclass(frozen=True)
class _Bench:
    """The smallest case of a failure, and what runs variants of it."""

    trials: Trials
    case: Case
    draw: Draw
    """Ordinary values in the shapes of the case."""

    @property
    def op(self) -> Op:
        return OPS[self.case.op]

    def ran(self, cases: Sequence[Case]) -> list[Run]:
        """The runs of cases, one after the other in one process; nothing where one does not end with values. Others are
        not tried where the first does not, as what hangs takes its whole limit."""
        target, runs = self.trials.target, list[Run]()
        if not all(map(target.kernel.capability.is_dispatched, cases)):
            return []
        for some in (cases[:1], cases[1:]):
            found = [each.get(target.id) for each in self.trials.pool.submit(list(some)).outcomes()] if some else []
            pairs = [(case, each) for case, each in zip(some, found, strict=True) if each is not None]
            if len(pairs) < len(some) or not all(_has_values(each) for _, each in pairs):
                return []
            runs += [Run(case, each) for case, each in pairs]
        return runs

    def passed(self, cases: Sequence[Case]) -> list[bool | None]:
        """Whether each passes; None for what is neither right nor wrong."""
        found = self.trials.judge(cases)
        return [None if each is None else _PASSED.get(each.verdict) for each in found]

    @property
    def has_places(self) -> bool:
        """Whether an output is of integers, which stay the same for many values."""
        return any(each.integers for each in self.op.outputs)

    @property
    def elsewhere(self) -> Draw:
        """Ordinary values in shapes that hardly anything else has."""
        free = [dim for dim in self.draw.sizes if dim not in self.op.fixed]
        return vary.extended(self.draw, dict(zip(free, _UNUSUAL, strict=False)))

    def ignores(self, one: Run, other: Run) -> bool:
        """Whether two runs end with the same numbers, which cannot be right for both. Of NaN and infinity one says
        nothing: they may come of either values."""
        if one.outcome.outputs != other.outcome.outputs:
            return False
        contract, got = self.trials.target.contract, one.judge.oracle.receive(one.judge.bits(one.outcome)).values
        mine, theirs = _ends(one, contract), _ends(other, contract)
        apart = ((mine[name][0] > theirs[name][1]) | (mine[name][1] < theirs[name][0]) for name in mine)
        return any(bool((each & np.isfinite(got[name])).any()) for name, each in zip(mine, apart, strict=True))


def _has_values(outcome: Outcome) -> bool:
    return outcome.status is Status.RAN and outcome.fault is None and not outcome.unwritten


def _ends(run: Run, contract: Contract) -> Mapping[str, tuple[F64, F64]]:
    """The ends of what is allowed, by output."""
    with np.errstate(all="ignore"):
        found = run.judge.oracle.truth.op.enclose(contract, run.case.structured)
    return {name: each.outer for name, each in found.items()}


def _ignored(bench: _Bench) -> Mechanism | None:
    """Whether other values of an input give the same bits, where these cannot be right for both. Where the first of two
    calls was right, the other one returns what was; shapes that were not met before may show that. That an input is
    ignored must be so in both: a result that is cut off, or left alone in some shapes, is of few elements the same."""
    if bench.has_places:
        return None
    found = [_ignored_in(bench, vary.made(draw)) for draw in (bench.draw, bench.elsewhere)]
    kept = next((told for conforms, told in found if conforms and told), None)
    if told := kept or [name for name in found[0][1] if name in found[1][1]]:
        every = len(told) == len(bench.case.inputs)
        return Mechanism("ignores" if not kept else "stale" if every else "keeps", "" if every else " and ".join(told))
    return None


def _ignored_in(bench: _Bench, base: Case) -> tuple[bool, list[str]]:
    """Return whether a case passes, and the inputs of which other values give the same bits."""
    names = [each.name for each in bench.op.inputs if not each.integers and each.name in base.inputs]
    runs = bench.ran([base, *(_with(base, name, _changed(base.inputs[name])) for name in names)])
    told = [name for name, run in zip(names, runs[1:], strict=False) if bench.ignores(runs[0], run)]
    return bool(told) and runs[0].conforms(bench.trials.target.contract), told


def _lost(bench: _Bench) -> Mechanism | None:
    """Whether the result does not depend on an input at some places along a dimension, on which it must."""
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
            ways = [(at, by) for at in range(extent) for by in (4.0, -4.0)]  # one sign alone may be cut off
            places = (_changed(tensor, (slice(None),) * axis + (at,), by) for at, by in ways)
            runs = bench.ran([base, *(_with(base, operand.name, each) for each in places)])
            same = [bench.ignores(runs[0], run) for run in runs[1:]]
            lost = tuple(at for at in range(len(same) // 2) if all(same[2 * at : 2 * at + 2]))
            if 0 < len(lost) < extent:
                return Mechanism("loses", operand.name, dim, lost, extent)
    return None


def _dims(op: Op, case: Case, operand: Operand) -> list[str]:
    """What the axes of a tensor are called."""
    rank = len((case.inputs.get(operand.name) or case.outputs[operand.name]).layout.shape)
    if op.turns and operand.name in op.alike:
        return [op.row if axis == Frame(case).axis else op.batch_name for axis in range(rank)]
    outer = [op.batch_name] * (rank + 1 - len(operand.axes))
    return [dim for each in operand.axes for dim in (outer if each == OUTER else [each])]


def _laid_out(bench: _Bench) -> Mechanism | None:
    """Whether the case passes once an input is contiguous, with the same values; a kernel may look at the strides of
    extents of 1, too."""
    base = vary.base_of(bench.case)
    apart = [n for n, each in bench.case.inputs.items() if each.layout.strides != contiguous(each.layout.shape).strides]
    for names in [*([name] for name in apart), *([apart] if len(apart) > 1 else [])]:
        parts = [base.part(name) for name in names]
        places = [Placement(guard=part.place.guard, offset=part.place.offset) for part in parts]
        together = base.with_parts(*(replace(part, place=at) for part, at in zip(parts, places, strict=True)))
        (judgement,) = bench.trials.judge([vary.made(together)])
        if judgement is not None and judgement.verdict is Verdict.PASS:
            return Mechanism("layout", " and ".join(names))
    return None


def _of_another_form(bench: _Bench) -> Mechanism | None:
    """Whether the results are those of another formula, wherever that differs from the declared one."""
    drawn = [replace(draw, seed=seed) for draw in (bench.draw, bench.elsewhere) for seed in _SEEDS]
    runs, contract = [*bench.ran([bench.case]), *bench.ran([*map(vary.made, drawn)])], bench.trials.target.contract
    for form in OTHERS if runs else ():
        for other in rewritten(bench.op, form):
            told = [_speaks_for(run, other, contract) for run in runs]
            if True in told and False not in told:
                return Mechanism("form", form.words)
    return None


def _speaks_for(run: Run, other: Op, contract: Contract) -> bool | None:
    """Whether what came is the value of another op wherever that is another one; None where it nowhere is."""
    truth, received, theirs = run.judge.oracle.truth, _received(run), _truth(run, other)
    with np.errstate(all="ignore"):
        mine = truth.op.enclose(contract, run.case.structured)
        found = theirs.enclose(Contract(), run.case.structured)
        close = list[np.bool_]()
        for name, each in mine.items():
            exact, new, got = head(each.centre), head(found[name].centre), received[name]
            low, high = each.outer
            apart = np.isfinite(new) & (np.abs(new - exact) > _TELLING * (high - low))
            close += list((np.abs(got - new) <= _CLOSER * np.abs(new - exact))[apart])
    return all(close) if close else None


def _taken(bench: _Bench) -> Mechanism | None:
    """Whether inputs are rounded to a narrower dtype first: so rounded they give the same bits, and these are right."""
    base, contract = vary.made(bench.elsewhere), bench.trials.target.contract
    names = [each.name for each in bench.op.inputs if base.inputs.get(each.name) and not each.integers]
    for dtype in _NARROWER:
        for some in ([], *([name] for name in names))[not names[1:] :] if not bench.has_places else ():
            rounded = {name: _rounded(base.inputs[name], dtype) for name in some or names}
            runs = bench.ran([base, replace(base, inputs={**base.inputs, **rounded})])
            if runs and bench.ignores(*runs) and runs[1].conforms(contract):
                return Mechanism("takes", " and ".join(some or names), step=dtype)
    return None


def _rounded(tensor: Tensor, dtype: str) -> Tensor:
    """The tensor with values of another dtype, in its own."""
    values = round_to(_values(tensor), FORMATS[dtype])
    return replace(tensor, bits=quantise(values, tensor.dtype).tobytes())


def _narrow(bench: _Bench) -> Mechanism | None:
    """Whether all results are numbers of a narrower dtype, and off by what they may be where all is calculated in it:
    by more than a rounding, or by one alone."""
    if bench.has_places:
        return None
    runs = bench.ran([vary.made(replace(bench.elsewhere, seed=seed)) for seed in _SEEDS])
    sums = all(node.kind in REDUCTIONS for node in read(bench.op).outputs.values())
    for dtype in _NARROWER if runs else ():
        form, contract = FORMATS[dtype], replace(bench.trials.target.contract, compute=dtype)
        if not all(np.array_equal(each, round_to(each, form)) for run in runs for each in _received(run).values()):
            continue
        if any(run.conforms(bench.trials.target.contract) or run.ratio(contract) is None for run in runs):
            continue
        ends = ((_ends(run, bench.trials.target.contract), _received(run)) for run in runs)
        once = all(
            ((round_to(mine[name][0], form) <= each) & (each <= round_to(mine[name][1], form))).all()
            for mine, got in ends
            for name, each in got.items()
        )
        return Mechanism(
            "narrow", "rounds its results to" if once else "sums in" if sums else "calculates in", step=dtype
        )
    return None


def _until(bench: _Bench) -> Mechanism | None:
    """Whether magnitude alone decides: ordinary values pass, and do not from some magnitude on, or so far from 0."""
    main = bench.op.main
    names = [each.name for each in bench.op.inputs if not each.integers and each.name in bench.case.inputs]
    case = bench.case.inputs.get(main)
    if main not in names or case is None or case.dtype not in FORMATS or bench.has_places:
        return None
    form = FORMATS[case.dtype]
    scales, shifts = np.linspace(0.0, form.emax, _STEPS), np.arange(0.0, form.precision)
    found = _from(bench, lambda values, limit: values * limit, [main], scales)
    if found is not None and found[0] <= np.abs(_values(case)).max(initial=0.0):
        return Mechanism("scale", main, limit=found[0], step=_lossy(bench, found[1]))
    found = _from(bench, lambda values, limit: values * limit / _least(values), [main], -scales)
    if found is not None and found[0] >= _least(_values(case)):
        return Mechanism("down", main, limit=found[0], step=_lossy(bench, found[1]))
    for some in ([main], *([names] if len(names) > 1 else [])):
        if found := _from(bench, lambda values, limit: values + limit, some, shifts):
            near = "" if some == names else _near(bench, names, found[0])
            return Mechanism("shift", " and ".join(some), dim=near, limit=found[0], step=_lossy(bench, found[1]))
    return None


def _near(bench: _Bench, names: Sequence[str], limit: float) -> str:
    """The other inputs, from which the first must not be far where all may be far from 0; '' where that decides."""
    far = (_changed_all(bench, lambda values, limit: values + limit, names, limit * times) for times in _FURTHER)
    return " and ".join(names[1:]) if bench.passed([*far]) == [True] * len(_FURTHER) else ""


def _least(values: F64) -> float:
    sizes = np.abs(values)
    return float(sizes.min(where=sizes > 0, initial=1.0))


def _from(
    bench: _Bench, way: Callable[[F64, float], F64], names: Sequence[str], powers: Sequence[float] | F64
) -> tuple[float, Case] | None:
    """The magnitude from which on it fails, as a power of two by which inputs of at most 1 are changed, and a case of
    it; None where it does not pass up to one, and fail at the next two."""

    def at(power: float) -> Case:
        return _changed_all(bench, way, names, 2.0**power)

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
    return 2.0**high, at(high)


def _changed_all(bench: _Bench, way: Callable[[F64, float], F64], names: Sequence[str], limit: float) -> Case:
    case = base = vary.made(bench.elsewhere)
    for name in names:
        tensor, values = base.inputs[name], _values(base.inputs[name])
        most = [np.abs(values).max(where=side, initial=0.0) or 1.0 for side in (values < 0, values >= 0)]
        changed = way(values / np.where(values < 0, *most), limit)  # one sign alone may have a limit
        case = _with(case, name, replace(tensor, bits=quantise(changed, tensor.dtype).tobytes()))
    return case


def _step(bench: _Bench) -> Mechanism | None:
    """Whether the results are those of a form of the formula in one of whose steps its value is lost."""
    step = "" if bench.has_places else _lossy(bench, bench.case)
    return Mechanism("step", "", step=step) if step else None


def _lossy(bench: _Bench, case: Case) -> str:
    """The step of another form of the formula whose value is lost in the case, where the form allows all that comes of
    this and other cases, and is made use of; '' if there is no such step."""
    drawn = [replace(draw, seed=seed) for draw in (bench.draw, bench.elsewhere) for seed in _SEEDS]
    runs = bench.ran([case, bench.case, *map(vary.made, drawn)])
    known = sorted(bench.trials.known.values(), key=lambda each: 0.0 if each is None else -each.ratio)
    failed = (Run.failed(each.of, each) for each in known if each is not None and isinstance(each.of, Case))
    runs += [run for run in islice(failed, _KNOWN) if run is not None and run.case.elements <= _LARGEST]
    contract = replace(bench.trials.target.contract, nonfinite="ieee", denormals="flush")
    for form in SAME if runs else ():
        for other in rewritten(bench.op, form):
            used = [_used(run, other, contract) for run in runs]
            if min(used) >= 0 and max(used) >= _MADE_USE:
                speaking = [runs[0], *([runs[used.index(max(used))]] if case is bench.case else [])]
                if step := next(filter(None, (_told(run, other, contract) for run in speaking)), ""):
                    return step
    return ""


def _told(run: Run, other: Op, contract: Contract) -> str:
    """The step of another op whose value is lost."""
    got, truth = _received(run), run.judge.oracle.truth.op
    with np.errstate(all="ignore"):
        within = truth.enclose(contract, run.case.structured)
        wrong = {name: compare(each, got[name]).failing for name, each in within.items()}
        return lost_step(_truth(run, other), within, wrong, got, truth.settled(contract).compute)


def _used(run: Run, other: Op, contract: Contract) -> float:
    """The share of what another op allows by which the wrong elements are off, of that which is off most; -1 where it
    does not allow all."""
    got, used = _received(run), 0.0
    with np.errstate(all="ignore"):
        theirs = _truth(run, other).enclose(contract, run.case.structured)
        mine = run.judge.oracle.truth.op.enclose(contract, run.case.structured)
        for name, each in theirs.items():
            if compare(each, got[name]).failing.any():
                return -1.0
            told = ~each.anything(mine[name].form) | ~np.isfinite(got[name]) | (got[name] == 0)
            wrong = compare(mine[name], got[name]).failing & told
            share = np.abs(got[name] - head(mine[name].centre)) * 2 / (each.outer[1] - each.outer[0])
            used = max(used, float(np.where(np.isfinite(share), share, 1.0).max(where=wrong, initial=0.0)))
    return used


def _received(run: Run) -> Mapping[str, F64]:
    return run.judge.oracle.receive(run.judge.bits(run.outcome)).values


def _truth(run: Run, other: Op) -> FormulaProblem:
    """The case as one of another op."""
    return Truth(replace(problem_of(run.case), known=other), confirms=False).op


def _values(tensor: Tensor) -> F64:
    return numbers(tensor.bits, tensor.dtype, (-1,)).astype(np.float64)


def _nodes(case: Case) -> tuple[Trace, Mapping[Node, F64]]:
    """The formula of a case and the values of all its steps."""
    problem = Truth(problem_of(case), confirms=False).op
    trace = problem.plain.trace
    return trace, evaluate(Inputs(trace, problem.tensors, problem.parameters), Float64())


def _tied(bench: _Bench) -> Mechanism | None:
    """Whether each place that is wrong is that of a value which is the right one's but for rounding."""
    problem, (trace, found), widest = Truth(problem_of(bench.case), confirms=False).op, _nodes(bench.case), 0.0
    runs = bench.ran([bench.case])
    for name, node in trace.outputs.items() if runs else ():
        if node.kind != "place":
            return None
        table, axis, layout = found[node.args[0]], trace.dims.index(node.label), bench.case.outputs[name]
        shape = np.broadcast_shapes(np.take(table, [0], axis).shape, found[node].shape)
        each = [
            problem.returned(name, np.broadcast_to(np.take(table, [place], axis), shape))
            for place in range(table.shape[axis])
        ]
        got = numbers(runs[0].outcome.outputs[name], layout.dtype, layout.layout.shape).astype(np.int64)
        places = problem.returned(name, np.broadcast_to(found[node], shape)).astype(np.int64)
        if got.min(initial=0) < 0 or got.max(initial=0) >= len(each):
            return None
        values = np.stack(each)
        mine, right = (np.take_along_axis(values, some[None], 0)[0] for some in (got, places))
        with np.errstate(all="ignore"):
            apart = np.where(mine == right, 0.0, np.abs(mine - right) / np.maximum(np.abs(mine), np.abs(right)))
        widest = max(widest, float(apart.max(initial=0.0)))
    return Mechanism("tie", "", limit=widest) if 0.0 < widest <= _TIED else None


def _changed(tensor: Tensor, where: tuple[slice | int, ...] = (), by: float = 4.0) -> Tensor:
    """The tensor with other values of the same signs, larger and in another order, as a scale may cancel out; or with
    others at some places, `by` times as large, so that they are not lost beside the rest."""
    values = _values(tensor)
    if not where:
        values = 1.75 * values[::-1]
    else:
        part = values.reshape(tensor.layout.shape)
        part[where] = np.where(part[where] == 0, by / 4.0, by * part[where])
    return replace(tensor, bits=quantise(values, tensor.dtype).tobytes())


def _with(case: Case, name: str, tensor: Tensor) -> Case:
    return replace(case, inputs={**case.inputs, name: tensor})


_Experiment = Callable[[_Bench], Mechanism | None]
TABLE: tuple[_Experiment, ...] = (
    _laid_out, _ignored, _lost, _of_another_form, _tied, _taken, _narrow, _until, _step,
)  # fmt: skip
"""The plainest first."""
LOSSY = (_step,)
"""Those of a value that is lost on the way."""


def mechanism(trials: Trials, case: Case, known: tuple[_Experiment, ...] = TABLE) -> Mechanism | None:
    """Return what the kernel does wrong, where an experiment of the table shows it of the smallest case; of what fails
    by other things than its values, or is large, only whether it needs contiguous inputs."""
    family = trials.family
    if trials.fresh or family.law is not None or family.name == "accepted invalid":
        return None
    if not Frame(case).fits() or not case.elements or any(each.alias for each in case.inputs.values()):
        return None
    is_small = family.name == "values" and case.elements <= _LARGEST
    table = [each for each in known if is_small or each is _laid_out]
    with contextlib.suppress(OutOfTimeError, CaseError):
        bench = _Bench(trials, case, vary.ordinary(vary.filled(vary.base_of(case)), 1))
        return next(_found(bench, table), None)
    return None


def _found(bench: _Bench, table: Sequence[_Experiment]) -> Iterator[Mechanism]:
    for experiment in table:
        with contextlib.suppress(CaseError, NumericsError, FormulaError):
            if found := experiment(bench):
                yield found
