"""The bench of one failure: its smallest case, the means to run variants of it, and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fuzz.contracts.runs import TargetRun
from fuzz.core.base.case import Case, Tensor
from fuzz.core.base.draw import Draw
from fuzz.core.base.dtypes import numbers, quantise
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate import variations as vary
from fuzz.core.judge.values import problem_of
from fuzz.explain.trial.trial import Trials
from oracles.doubledouble import F64, head
from oracles.enclosure import compare
from oracles.formula.contract import Contract
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.op import Op
from oracles.ops import OPS
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth

_UNUSUAL = (11, 13, 7, 5, 3)
"""Extents that are unusual, so that state which a kernel keeps does not fit them, and n - 1 is never 0."""
TELLING = 16.0
"""Two right results count as different if they are this many times the allowed error apart. Chosen, not measured."""
_PASSED = {Verdict.PASS: True, Verdict.FAIL_NUMERIC: False, Verdict.FAIL_NONFINITE: False}


@dataclass(frozen=True)
class Bench:
    """The smallest case of a failure, and the trials that run variants of it."""

    trials: Trials
    case: Case
    draw: Draw
    """A draw of ordinary values in the shapes of the case."""

    @property
    def op(self) -> Op:
        return OPS[self.case.op]

    def ran(self, cases: Sequence[Case]) -> list[TargetRun]:
        """Return the runs of the cases, one after the other in one process; an empty list if one of them returns no
        values. If the first does not, the others are not tried, since each hang takes its whole limit."""
        target, runs = self.trials.target, list[TargetRun]()
        if not all(map(target.kernel.capability.is_dispatched, cases)):
            return []
        for some in (cases[:1], cases[1:]):
            found = [each.get(target.id) for each in self.trials.pool.submit(list(some)).outcomes()] if some else []
            pairs = [(case, each) for case, each in zip(some, found, strict=True) if each is not None]
            if len(pairs) < len(some) or not all(_has_values(each) for _, each in pairs):
                return []
            runs += [TargetRun(case, each) for case, each in pairs]
        return runs

    def passed(self, cases: Sequence[Case]) -> list[bool | None]:
        """Return for each case whether it passes; None if it has another result than right or wrong values."""
        found = self.trials.judge(cases)
        return [None if each is None else _PASSED.get(each.verdict) for each in found]

    @property
    def has_places(self) -> bool:
        """Whether an output holds integers, which stay the same for many inputs."""
        return any(each.integers for each in self.op.outputs)

    @property
    def elsewhere(self) -> Draw:
        """A draw of ordinary values in unusual shapes."""
        free = [dim for dim in self.draw.sizes if dim not in self.op.fixed]
        return vary.extended(self.draw, dict(zip(free, _UNUSUAL, strict=False)))

    def ignores(self, one: TargetRun, other: TargetRun) -> bool:
        """Return whether two runs return the same finite numbers although these cannot be right for both. NaN and
        infinity are not counted, since they may be right for both."""
        if one.outcome.outputs != other.outcome.outputs:
            return False
        contract, got = self.trials.target.contract, one.judge.oracle.receive(one.judge.bits(one.outcome)).values
        mine, theirs = allowed(one, contract), allowed(other, contract)
        apart = ((mine[name][0] > theirs[name][1]) | (mine[name][1] < theirs[name][0]) for name in mine)
        return any(bool((each & np.isfinite(got[name])).any()) for name, each in zip(mine, apart, strict=True))

    def uses_all(self, case: Case, but: str) -> bool:
        """Whether each input except one changes the right result."""
        own = _of_its_own(case)
        for name in (each.name for each in self.op.inputs if each.name in case.inputs and not each.integers):
            other = _of_its_own(with_tensor(case, name, other_values(case.inputs[name])))
            if name != but and all(np.array_equal(own[each], other[each], equal_nan=True) for each in own):
                return False
        return True

    def is_alike(self, one: TargetRun, other: TargetRun) -> bool | None:
        """Return whether two runs return the same numbers, except for rounding, although the right results differ
        clearly; None if the right results do not."""
        contract, mine, theirs = self.trials.target.contract, received(one), received(other)
        before, after, apart = allowed(one, contract), allowed(other, contract), False
        for name, (low, high) in before.items():
            width = np.maximum(high - low, after[name][1] - after[name][0])
            if not (np.abs(mine[name] - theirs[name]) <= width.max(initial=0.0)).all():
                return False
            apart = apart or bool((np.abs(low - after[name][0]) > TELLING * width).any())
        return True if apart else None


def exact(problem: FormulaProblem, case: Case) -> Mapping[str, F64]:
    """Return the exact values of a case in float64, by the name of the output."""
    with np.errstate(all="ignore"):
        found = problem.enclose(Contract(), case.structured)
    return {name: head(each.centre) for name, each in found.items()}


def _of_its_own(case: Case) -> Mapping[str, F64]:
    return exact(Truth(problem_of(case), confirms=False).op, case)


def _has_values(outcome: Outcome) -> bool:
    return outcome.status is Status.RAN and outcome.fault is None and not outcome.unwritten


def allowed(run: TargetRun, contract: Contract) -> Mapping[str, tuple[F64, F64]]:
    """Return the smallest and the largest allowed values, by the name of the output."""
    with np.errstate(all="ignore"):
        found = run.judge.oracle.truth.op.enclose(contract, run.case.structured)
    return {name: each.outer for name, each in found.items()}


def received(run: TargetRun) -> Mapping[str, F64]:
    return run.judge.oracle.receive(run.judge.bits(run.outcome)).values


def is_finite(run: TargetRun) -> bool:
    return all(np.isfinite(each).all() for each in received(run).values())


def truth_of(run: TargetRun, other: Op) -> FormulaProblem:
    """Return the problem of a run's case with another op's formula."""
    return Truth(replace(problem_of(run.case), known=other), confirms=False).op


def used_of(run: TargetRun, other: Op, contract: Contract) -> float:
    """Return the largest error of the wrong elements, as a share of what another op allows; -1 if the other op does not
    allow all elements."""
    got, used = received(run), 0.0
    with np.errstate(all="ignore"):
        theirs = truth_of(run, other).enclose(contract, run.case.structured)
        mine = run.judge.oracle.truth.op.enclose(contract, run.case.structured)
        for name, each in theirs.items():
            if compare(each, got[name]).failing.any():
                return -1.0
            told = ~each.anything(mine[name].form) | ~np.isfinite(got[name]) | (got[name] == 0)
            wrong = compare(mine[name], got[name]).failing & told
            share = np.abs(got[name] - head(mine[name].centre)) * 2 / (each.outer[1] - each.outer[0])
            used = max(used, float(np.where(np.isfinite(share), share, 1.0).max(where=wrong, initial=0.0)))
    return used


def values_of(tensor: Tensor) -> F64:
    return numbers(tensor.bits, tensor.dtype, (-1,)).astype(np.float64)


def valued(tensor: Tensor, values: F64) -> Tensor:
    """Return the tensor with these values, rounded to its dtype."""
    return replace(tensor, bits=quantise(values.ravel(), tensor.dtype).tobytes())


def other_values(tensor: Tensor, where: tuple[slice | int, ...] = (), by: float = 4.0) -> Tensor:
    """Return the tensor with other values. They have the same signs, but are larger and in another order, since a
    common scale may cancel out. With `where`, only the elements there change, to `by` times their value, so that the
    change is not lost beside the rest."""
    values = values_of(tensor)
    if not where:
        values = 1.75 * values[::-1]
    else:
        part = values.reshape(tensor.layout.shape)
        part[where] = np.where(part[where] == 0, by / 4.0, by * part[where])
    return valued(tensor, values)


def with_tensor(case: Case, name: str, tensor: Tensor) -> Case:
    return replace(case, inputs={**case.inputs, name: tensor})


def chosen_gap(run: TargetRun) -> float | None:
    """Return the largest relative gap between a chosen value and the right one; None if an output chooses none."""
    problem, widest = Truth(problem_of(run.case), confirms=False).op, 0.0
    trace = problem.plain.trace
    found = evaluate(Inputs(trace, problem.tensors, problem.parameters), Float64())
    for name, node in trace.outputs.items():
        if node.kind != "place":
            return None
        table, axis, layout = found[node.args[0]], trace.dims.index(node.label), run.case.outputs[name]
        shape = np.broadcast_shapes(np.take(table, [0], axis).shape, found[node].shape)
        each = [
            problem.returned(name, np.broadcast_to(np.take(table, [place], axis), shape))
            for place in range(table.shape[axis])
        ]
        got = numbers(run.outcome.outputs[name], layout.dtype, layout.layout.shape).astype(np.int64)
        places = problem.returned(name, np.broadcast_to(found[node], shape)).astype(np.int64)
        if got.min(initial=0) < 0 or got.max(initial=0) >= len(each):
            return None
        values = np.stack(each)
        mine, right = (np.take_along_axis(values, some[None], 0)[0] for some in (got, places))
        with np.errstate(all="ignore"):
            apart = np.where(mine == right, 0.0, np.abs(mine - right) / np.maximum(np.abs(mine), np.abs(right)))
        widest = max(widest, float(apart.max(initial=0.0)))
    return widest
