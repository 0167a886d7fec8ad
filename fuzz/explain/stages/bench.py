"""The bench of one failure: its smallest case, the means to run variants of it, and their values. And what is wrong in
a kernel of a transform, by the laws of transforms: its results for all unit impulses are its whole matrix, if it is
linear. It may be that of another transform, or wrong in some rows or columns. A kernel that is right for each impulse
and wrong for sums of them is not linear."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from fuzz.core.laws.transforms import Impulses, exact_outputs, is_transform, room_of
from fuzz.explain.explanation import Mechanism
from fuzz.explain.trial.trial import Trials
from oracles.doubledouble import F64, head
from oracles.enclosure import Mask, compare
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


_MOST = 128
"""The most impulses, each a run of its own. Chosen, not measured."""
_FEWEST = 4
"""The fewest results from which another transform is told. Chosen: of three, many are alike."""
_GROWN = 3
"""The extent of each dimension where a failing case has fewer results. Chosen: it is odd, and makes planes of 9."""
_COARSE = 2.0**-6
"""The largest error of factors, of the largest, that counts as coarse: a number of three digits. Chosen."""
_EVEN, _ODD = (2, 4, 8, 16), (3, 5, 6, 7, 12)
"""Lengths that are powers of two, and others."""
_HUGE = 2.0**60
"""Values below this do not overflow in the sums of a transform of f32."""
_ALIKE = 1e-4
"""How near two factors are that count as the same."""


@dataclass(frozen=True)
class _Matrix:
    """What a kernel returns for impulses, shape `[slices, impulses, outputs, results]`."""

    got: F64
    exact: F64
    room: float
    names: Sequence[str]
    """The input of each impulse."""

    @property
    def wrong(self) -> Mask:
        return self.off(self.exact)

    def off(self, other: F64, room: float = 1.0) -> Mask:
        """Return a mask of the results that are not those of another matrix."""
        return np.asarray(~(np.abs(self.got - other) <= room * self.room))

    @property
    def count(self) -> int:
        """The number of results of a slice, in each output."""
        return int(self.got.shape[-1])


def _seen(bench: Bench, base: Case) -> _Matrix | None:
    """Return what the kernel returns for all impulses in the shapes of a case; None if there are many, or it fails."""
    impulses = Impulses(base)
    lengths = {math.prod(each.layout.shape) // impulses.batch for each in base.outputs.values()}
    if not impulses.are_few or sum(impulses.sizes.values()) > _MOST or len(lengths) > 1:
        return None
    op, sizes = bench.op, impulses.sizes
    places = [(each.name, at) for each in op.inputs for at in range(sizes[each.name])]
    cases = [impulses.at(name, [at] * impulses.batch) for name, at in places]
    runs, exact = bench.ran(cases), [exact_outputs(each) for each in cases]
    if not runs:
        return None
    outputs = {each.name: base.outputs[each.name] for each in op.outputs}
    got = [
        {name: numbers(run.outcome.outputs[name], each.dtype, each.layout.shape) for name, each in outputs.items()}
        for run in runs
    ]

    def stacked(some: Sequence[object]) -> F64:
        parts = [[np.asarray(each[name], np.float64).reshape(impulses.batch, -1) for name in outputs] for each in some]  # type: ignore[index]
        return np.asarray(parts).transpose(2, 0, 1, 3)

    room = max(room_of(case, each) for case, each in zip(cases, exact, strict=True))
    return _Matrix(stacked(got), stacked(exact), room, [name for name, _ in places])


def of_transform(bench: Bench) -> Mechanism | None:
    """Return what the matrix of a kernel of a transform tells; None for other ops, or if it tells nothing."""
    if not is_transform(bench.op):
        return None
    base = vary.made(bench.draw)
    if _needs_a_power_of_two(bench):
        return Mechanism("power", "", dim=bench.op.row)
    seen = _seen(bench, base)
    if seen is None:
        return None
    if not seen.wrong.any():
        return (
            Mechanism("linear", "") if any(_is_not_linear(bench, each, seen) for each in (bench.case, base)) else None
        )
    if not seen.wrong.any((1, 2, 3)).all():  # right in some rows of the batch
        return None
    tried = [seen, _seen(bench, vary.made(bench.elsewhere))]
    if max(each.count for each in tried if each) < _FEWEST:
        tried.append(_seen(bench, vary.made(vary.extended(bench.draw, dict.fromkeys(bench.draw.sizes, _GROWN)))))
    others = [each for each in tried if each is not None and each.wrong.any()]
    if words := _of_another(others):
        return Mechanism("form", words)
    return _in_part(max(others, key=lambda each: min(each.count, _FEWEST)), bench)


def _needs_a_power_of_two(bench: Bench) -> bool:
    row, sizes = bench.op.row, bench.draw.sizes
    if row not in sizes or row in bench.op.fixed or sizes[row] & (sizes[row] - 1) == 0:
        return False
    passed = bench.passed([vary.made(vary.extended(bench.draw, {row: size})) for size in (*_EVEN, *_ODD)])
    return passed == [True] * len(_EVEN) + [False] * len(_ODD)


def _is_not_linear(bench: Bench, base: Case, seen: _Matrix) -> bool:
    """Whether the results of a case are not the sums of those of its impulses."""
    runs, batch = bench.ran([base]), seen.got.shape[0]
    values = np.concatenate([values_of(base.inputs[name]).reshape(batch, -1) for name in dict.fromkeys(seen.names)], 1)
    if not runs or not (np.abs(values) < _HUGE).all():
        return False
    parts = [
        numbers(runs[0].outcome.outputs[name], each.dtype, each.layout.shape).astype(np.float64).reshape(batch, -1)
        for name, each in ((each.name, base.outputs[each.name]) for each in bench.op.outputs)
    ]
    apart = np.abs(np.stack(parts, 1) - np.einsum("bi,bior->bor", values, seen.got))
    return not bool((apart <= 2 * seen.room * np.abs(values).sum(1)[:, None, None]).all())


def _forms(seen: _Matrix) -> Iterator[tuple[str, F64]]:
    """Yield other transforms in words, and their matrices: parts with the other sign, or exchanged."""
    first = np.array([name == seen.names[0] for name in seen.names])
    inputs = np.where(first, 1.0, -1.0)[None, :, None, None]
    pairs, two = 2 * int(first.sum()) == len(first), seen.got.shape[2] == 2
    yield "the transform", seen.exact
    if two:
        outputs = np.array([1.0, -1.0])[None, None, :, None]
        if pairs:
            yield "the transform with the other sign of the angle", seen.exact * inputs * outputs
        words = "the conjugate of the transform" if pairs else "the transform with the other sign of the angle"
        yield words, seen.exact * outputs
        yield "the transform with real and imaginary part exchanged", seen.exact[:, :, ::-1]
    if pairs:
        words = "the transform of the conjugate" if two else "the transform with the other sign of the angle"
        yield words, seen.exact * inputs


def _of_another(seen: Sequence[_Matrix]) -> str:
    """Return the words for another transform that the kernel is in all the shapes that were seen; "" if it is none."""
    told = [{words: factor for words, made in _forms(each) if (factor := _factor(each, made))} for each in seen]
    for words in told[0]:
        if all(words in each for each in told) and any(each.count >= _FEWEST for each in seen):
            factors = [_named(each, one[words]) for each, one in zip(seen, told, strict=True)]
            same = next((name for name in factors[0] if all(name in each for each in factors)), None)
            if same is not None:
                return f"{words}, times {same}" if same else words
    orders = [_order(each) for each in seen if each.count >= _FEWEST]
    return orders[0] if orders and all(each == orders[0] for each in orders) else ""


def _factor(seen: _Matrix, other: F64) -> float:
    """Return the factor by which the kernel's matrix is another one; 0 if it is not."""
    factor = float((seen.got * other).sum() / (other * other).sum())
    close = math.isfinite(factor) and abs(factor) > _ALIKE
    return factor if close and not seen.off(factor * other, max(1.0, abs(factor))).any() else 0.0


def _named(seen: _Matrix, factor: float) -> Sequence[str]:
    """Return the names of a factor, "" for 1: by the lengths of what enters and of what is returned, or its value."""
    lengths = {seen.names.count(seen.names[0]), seen.count}
    known = [("", 1.0), *((text, value(n)) for n in lengths for text, value in _NAMES.items())]
    return [*(text for text, value in known if abs(factor / value - 1) < _ALIKE), f"{factor:.4g}"]


_NAMES: Mapping[str, Callable[[int], float]] = {
    "n": lambda n: n, "1/n": lambda n: 1 / n, "the root of n": math.sqrt, "1/the root of n": lambda n: n**-0.5,
}  # fmt: skip


def _order(seen: _Matrix) -> str:
    """Return the words for results that are right but at other places; "" if they are not."""
    apart = np.abs(seen.got[..., :, None] - seen.exact[..., None, :]).max((0, 1, 2)) <= seen.room
    if not apart.any(1).all() or (apart.sum(1) > 1).any():
        return ""
    moved = {int(each) for each in (np.arange(seen.count) - apart.argmax(1)) % seen.count}
    by = f"moved by {min(moved)}" if len(moved) == 1 else "in another order"
    return f"the transform with its results {by}"


def _in_part(seen: _Matrix, bench: Bench) -> Mechanism | None:
    """Return the results, or else the elements of a row, for which the matrix is wrong; or how coarse its factors
    are."""
    wrong, most = seen.wrong, float(np.abs(seen.exact).max())
    results, terms = ([int(at) for at in np.flatnonzero(wrong.any(axes))] for axes in ((0, 1, 2), (0, 2, 3)))
    of, coarse = (seen.count, len(seen.names)), float(np.abs(seen.got - seen.exact).max()) / most
    if coarse <= _COARSE and 2 * len(results) > of[0] and 2 * len(terms) > of[1]:
        return Mechanism("coarse", "", limit=coarse)
    if len(results) < of[0] and len(results) / of[0] <= len(terms) / of[1]:
        outputs = [bool(wrong[:, :, at].any()) for at in range(wrong.shape[2])]
        names = [each.name for each in bench.op.outputs if each.name in bench.case.outputs]
        about = " and ".join(name for name, each in zip(names, outputs, strict=True) if each)
        return Mechanism("bins", about, places=(*results,), of=of[0], step=_turned(seen, results))
    if len(terms) < of[1]:
        size = seen.names.count(seen.names[0])
        about = " and ".join(dict.fromkeys(seen.names[at] for at in terms))
        return Mechanism("impulses", about, places=(*dict.fromkeys(at % size for at in terms),), of=size)
    return None


def _turned(seen: _Matrix, results: Sequence[int]) -> str:
    """Return the factor of wrong complex results, in words, if it is the same for all impulses: a shift of the row then
    turns them as it should. "" if it is not."""
    if seen.got.shape[2] != 2:
        return ""
    (got, exact) = (each[..., 0, results] + 1j * each[..., 1, results] for each in (seen.got, seen.exact))
    factor = complex((got * exact.conj()).sum() / (np.abs(exact) ** 2).sum())
    if not (np.abs(got - factor * exact) <= 2 * seen.room).all():
        return ""
    size, turned = abs(factor), math.degrees(math.atan2(factor.imag, factor.real))
    by = [f"times {size:.6g}"] if abs(size - 1) > _ALIKE else []
    by += [f"turned by {turned:.3g} degrees"] if abs(turned) > _ALIKE else []
    return f"the right ones {' and '.join(by)}" if by else ""
