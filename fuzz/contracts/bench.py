"""Running cases on one target that differ only in their values, evaluating the op's formula for them, and measuring
term by term the sums whose terms are the elements of an input: means, matrix products, weight gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.contracts.orders import Meeting, Pair, Tree, UnreadableSumError, read_tree
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case, Origin
from fuzz.core.base.draw import GIVEN, Draw, Part
from fuzz.core.base.dtypes import numbers, quantise
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.batch import Pool, outcomes_on
from fuzz.core.generate.dims import LARGE_WORK
from fuzz.core.generate.menus import usual
from fuzz.core.generate.variations import extended, made, rank_of, sized
from fuzz.core.judge.values import problem_of
from oracles.doubledouble import F64
from oracles.dtypes import FORMATS, form
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import NOTHING, Inputs, Replaced, evaluate
from oracles.formula.made import grown
from oracles.formula.trace import Node, Trace
from oracles.lazy import lazy
from oracles.operand import AXIS, OUTER
from oracles.ops import OPS
from oracles.tiers.problem import FormulaProblem

Arrays = Mapping[str, F64]
NO_ARRAYS: Arrays = MappingProxyType({})
_ORIGIN = Origin(GIVEN, "measured")
_MOST = 1 << 16
"""The most elements of the cases that are sent together."""
_ROWS, _OTHERS = (64, 6), 4
"""The product of the extents of the dimensions that are not summed, so that many sums are measured in one case, and the
smaller product that is tried if the case is too large; then the extent of dimensions that the first input lacks."""


class UnmeasurableError(Exception):
    """A property of a kernel cannot be measured. The message says why."""


@dataclass(frozen=True)
class SumBench:
    """A target on which sums are measured, and a case with the extents, dtypes, strides and parameters of all cases."""

    pool: Pool
    target: Target
    like: Case

    @lazy
    def floats(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of the inputs of numbers, by name, without inputs that alias others or repeat elements."""
        op = OPS[self.like.op]
        return {
            name: each.layout.shape
            for name, each in self.like.inputs.items()
            if name not in op.integers and each.alias is None and 0 not in each.layout.strides
        }

    @lazy
    def _plain(self) -> FormulaProblem:
        return FormulaProblem(problem_of(self.like))

    @property
    def trace(self) -> Trace:
        """The graph of the formula of the op."""
        return self._plain.plain.trace

    def filled(self, values: Arrays, *, structured: bool = True) -> Case:
        """Return the case with these values, by the names of inputs; inputs that share memory share values."""
        inputs = dict(self.like.inputs)
        for name, tensor in self.like.inputs.items():
            home = tensor.alias or name
            if home in values:
                own = self.like.inputs[home]
                bits = quantise(np.broadcast_to(values[home], own.layout.shape), own.dtype).tobytes()
                inputs[name] = replace(tensor, bits=bits)
        return replace(self.like, inputs=inputs, structured=structured, origin=_ORIGIN)

    def run(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        """Yield the target's outcome of each case. Raises UnmeasurableError if the target does not accept a case."""
        at_once = max(1, _MOST // max(1, self.like.elements))
        for start in range(0, len(cases), at_once):
            for each in outcomes_on(self.target.id, self.pool, cases[start : start + at_once]):
                if each is None:
                    raise UnmeasurableError("it does not take such a case")
                yield each

    def outputs(self, cases: Sequence[Case]) -> list[Arrays]:
        """Return the outputs of each case in float64, with an axis for each dimension of the formula. Raises
        UnmeasurableError if the target does not return, or damages memory."""
        found = list[Arrays]()
        for case, outcome in zip(cases, self.run(cases), strict=True):
            if outcome.status is not Status.RAN or outcome.unwritten or outcome.damage:
                raise UnmeasurableError(f"it {outcome.status.value.lower()}: {outcome.detail}")
            arrays = {}
            for name, output in case.outputs.items():
                got = numbers(outcome.outputs[name], output.dtype, output.layout.shape)
                arrays[name] = self.placed(name, got.astype(np.float64))
            found.append(arrays)
        return found

    def placed(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return a tensor with one axis for each dimension of the formula, of extent 1 for dimensions that it lacks."""
        trace, op = self.trace, OPS[self.like.op]
        dims = op.operand(name).axes
        found = self._plain.arrangement.collapsed(name, values)
        order = sorted(range(len(dims)), key=lambda axis: trace.dims.index(dims[axis]))
        found = found.transpose(order)
        sizes = iter(found.shape)
        return found.reshape([next(sizes) if dim in dims else 1 for dim in trace.dims])

    def inputs(self, case: Case) -> Inputs:
        """Return the inputs of the formula for a case."""
        problem = FormulaProblem(problem_of(case))
        return Inputs(self.trace, problem.tensors, problem.parameters)

    def exact(self, case: Case, replaced: Replaced = NOTHING) -> Mapping[Node, F64]:
        """Return the values of all nodes of the formula in float64; the values of some nodes may be replaced."""
        return evaluate(self.inputs(case), Float64(), replaced)

    @lazy
    def extents(self) -> Mapping[str, int]:
        """Return the number of elements along each dimension."""
        return self.inputs(self.like).extents

    def number(self, node: Node) -> int:
        """Return the number of terms of the sum at a node."""
        return math.prod(self.extents[dim] for dim in node.over)


@dataclass(frozen=True)
class Template:
    """A target and a draw from which cases of chosen extents are made."""

    target: Target
    draw: Draw

    @property
    def case(self) -> Case:
        """The case with the extents of the draw."""
        return made(self.draw)

    def sized(self, along: str, terms: int) -> Case:
        """Return a case whose sums along the dimensions `along` have about `terms` terms. If `along` is empty, the case
        has about that many elements. Raises ValueError or UnmeasurableError."""
        kernel, op = self.target.kernel, OPS[self.target.kernel.op]
        able, summed = kernel.capability, along.split()
        others = [dim for dim in op.inputs[0].axes if dim not in summed and dim not in op.fixed]
        always = math.prod(op.fixed[dim] for dim in summed if dim in op.fixed)
        each = _share(terms / always, [dim for dim in summed if dim not in op.fixed])
        dispatch, why = self.target.dispatch(), "it has too many terms"
        for at_once in _ROWS:
            rows = dict.fromkeys(others, _share(at_once if summed else terms, others))
            sizes = dict(op.fixed)
            for dim in self.draw.sizes.keys() - op.fixed.keys():
                size = each if dim in summed else rows.get(dim, _OTHERS)
                step, most = able.step(dim), kernel.capabilities.max.get(dim)
                size = -(-size // step) * step
                sizes[dim] = size if most is None else max(step, min(size, most // step * step))
            sizes = grown(op.made, sizes, op.fixed, op.least)
            outer = each if OUTER in summed else min(at_once, rows.get(OUTER, 1))
            if outer * op.work(sizes) > LARGE_WORK:
                continue
            rank = max(2, rank_of(self.draw)) if OUTER in op.inputs[0].axes else None
            case = made(sized(extended(self.draw, sizes), outer, rank))
            if dispatch.accepts(case):
                return case
            why = able.refusal(case) or "it is too slow"
        raise UnmeasurableError(why)


def _share(elements: float, dims: Sequence[str]) -> int:
    """Return the extent that each dimension needs for a product of about `elements`."""
    return max(2, round(math.pow(elements, 1 / max(1, len(dims)))))


def template(target: Target, dtype: str) -> Template:
    """Return a target's template with all optional tensors that it takes, and parameters that hide little of a sum."""
    op, able, there = OPS[target.kernel.op], target.kernel.capability, dict[str, str]()
    for operand in op.operands:
        if not operand.optional or operand.name in able.able.optional:
            there[operand.name] = dtype if operand.name == op.main else able.dtypes_of(operand.name, there)[0]
    parts = (
        Part(name, each, recipe=usual(op.operand(name)) if op.is_input(name) else "") for name, each in there.items()
    )
    params = {each.name: min(each.values, key=abs) for each in op.parameters if each.neutral is None}
    sizes = grown(op.made, {dim: op.fixed.get(dim, 1) for dim in op.named}, op.fixed, op.least)
    outer = (*((1,) if OUTER in op.inputs[0].axes else ()), *(sizes[dim] for dim in op.inner[:-1]))
    extents = {dim: size for dim, size in sizes.items() if dim not in op.inner}
    axis = {AXIS: len(outer)}
    return Template(target, Draw(op.name, sizes[op.row], outer, {**params, **axis}, 0, tuple(parts), extents=extents))


SUMS = ("sum", "dot")
_CLOSE = 0.4
"""A number of terms counts as known if the error of its measurement is smaller than this."""
_ALIKE = 1e-9
_PAIRS, _MOST_ORDERS = 8, 4
"""The number of pairs by whose answers rows are grouped, and the most groups, each with an order of its own."""


@dataclass(frozen=True)
class Carrier:
    """A sum in a formula whose terms are elements of one input times a constant, if all other inputs are 1 or 0."""

    bench: SumBench
    node: Node
    name: str
    """The name of the input whose elements are the terms."""
    factor: float
    """The constant by which elements are multiplied to give terms."""
    zeros: frozenset[str] = frozenset()
    """The names of the other inputs that are filled with 0 instead of 1."""
    telling: tuple[str, ...] = ()
    """The names of the outputs that are linear in the sum."""

    @lazy
    def places(self) -> NDArray[np.intp]:
        """Return the flat indices of the input's elements, shape `[rows, n]`: each row holds the terms of one sum."""
        trace = self.bench.trace
        shape = self.bench.floats[self.name]
        flat = self.bench.placed(self.name, np.arange(math.prod(shape)).reshape(shape))
        over = [trace.dims.index(dim) for dim in self.node.over]
        kept = [axis for axis in range(flat.ndim) if axis not in over]
        return flat.transpose(*kept, *over).reshape(-1, math.prod(flat.shape[axis] for axis in over))

    @property
    def rows(self) -> int:
        """The number of separate sums in one case."""
        return len(self.places)

    @property
    def n(self) -> int:
        """The number of terms of each sum."""
        return int(self.places.shape[1])

    @lazy
    def sizes(self) -> tuple[float, float]:
        """Return a huge number and a small one, which is lost when it is added to the huge one."""
        dtype = form(self.bench.like.inputs[self.name].dtype)
        if dtype.emax >= FORMATS["f32"].emax:
            return 2.0**80, 1.0
        return 2.0**dtype.emax, dtype.eta

    def case(self, rows: F64, more: Arrays = NO_ARRAYS) -> Case:
        """Return the case whose input has these elements, shape `[rows, n]`; `more` has the values of other inputs."""
        values = np.empty(self.places.size)
        values[self.places.reshape(-1)] = rows.reshape(-1)
        others = {name: np.full(shape, float(name not in self.zeros)) for name, shape in self.bench.floats.items()}
        return self.bench.filled({**others, **more, self.name: values.reshape(self.bench.floats[self.name])})

    def totals(self, rows: Sequence[F64]) -> list[F64]:
        """Return for each case the kernel's sums in small numbers, shape `[rows]`; NaN if no outputs agree on a sum."""
        found = list[F64]()
        for low, high in self.bounds(rows):
            with np.errstate(invalid="ignore"):
                middle = np.rint((low + high) / 2)
                sure = (np.abs(low - middle) < _CLOSE) & (np.abs(high - middle) < _CLOSE)
            found.append(np.where(sure, middle, np.nan))
        return found

    def bounds(self, rows: Sequence[F64]) -> list[tuple[F64, F64]]:
        """Return for each case the least and largest sums that its outputs show, shape `[rows]`; inf and -inf if none
        do."""
        cases = [self.case(each) for each in rows]
        return [self._read(case, got) for case, got in zip(cases, self.bench.outputs(cases), strict=True)]

    def _read(self, case: Case, got: Arrays) -> tuple[F64, F64]:
        kept = [dim for dim in self.bench.trace.dims if dim in self._dims]
        low, high = np.full(self.rows, np.inf), np.full(self.rows, -np.inf)
        nothing, full = self._ends if self._is_alone else self._ends_of(case)
        for name in self.telling:
            values = got[name]
            output = self.bench.trace.outputs[name]
            dtype = form(case.outputs[name].dtype)
            with np.errstate(all="ignore"):
                slope = (full[output] - nothing[output]) / self.n
                counts = (values - nothing[output]) / slope
                gap = np.maximum(np.maximum(np.abs(values), np.abs(nothing[output])) * dtype.u, dtype.eta / 2)
                known = np.isfinite(counts) & (gap / np.abs(slope) < _CLOSE)
            np.minimum(low, self._by_row(np.where(known, counts, np.inf), kept, np.minimum), out=low)
            np.maximum(high, self._by_row(np.where(known, counts, -np.inf), kept, np.maximum), out=high)
        return low, high

    def _ends_of(self, case: Case) -> tuple[Mapping[Node, F64], Mapping[Node, F64]]:
        """Return the values of all nodes of the formula for a sum of 0, and for one whose terms are all small."""
        return self.with_total(case, 0.0), self.with_total(case, self.factor * self.sizes[1] * self.n)

    @lazy
    def _ends(self) -> tuple[Mapping[Node, F64], Mapping[Node, F64]]:
        return self._ends_of(self.case(np.ones((self.rows, self.n))))

    @lazy
    def _is_alone(self) -> bool:
        """Whether outputs depend on the input through this sum alone, so that `_ends` of one case hold for all."""
        needed = {*self.bench.trace.outputs.values()}
        for node in reversed(self.bench.trace.nodes):
            if node in needed and node is not self.node:
                needed.update(node.args)
        return all(node.args or node.label != self.name for node in needed)

    @lazy
    def _dims(self) -> frozenset[str]:
        own = self.bench.trace.tensors[self.name]
        return frozenset(own) - {*self.node.over}

    def with_total(self, case: Case, total: float) -> Mapping[Node, F64]:
        """Return the values of all nodes of the formula if the sum is replaced by `total`."""
        return self.bench.exact(case, {(self.node, None): np.full((), total)})

    def _by_row(self, values: F64, kept: list[str], reduce: np.ufunc) -> F64:
        """Return the least or the largest value of each row, shape `[rows]`; `kept` names the dimensions of rows."""
        dims, extents = self.bench.trace.dims, self.bench.extents
        shape = [extents[dim] if dim in kept else size for dim, size in zip(dims, values.shape, strict=True)]
        others = tuple(axis for axis, dim in enumerate(dims) if dim not in kept)
        found: F64 = reduce.reduce(np.broadcast_to(values, shape), axis=others).reshape(-1)
        return found

    def _meeting(self, rows: NDArray[np.intp]) -> Meeting:
        """Return the function that `read_tree` asks: it measures a pair of terms in rows that are summed alike."""
        large, small = self.sizes

        def meeting(pairs: Sequence[Pair]) -> list[int | None]:
            found, cases = list[int | None](), list[F64]()
            for start in range(0, len(pairs), len(rows)):
                values = np.full((self.rows, self.n), small)
                for row, (one, other) in zip(rows, pairs[start : start + len(rows)], strict=False):
                    values[row, one], values[row, other] = large, -large
                cases.append(values)
            for counted in self.totals(cases):
                found += [None if math.isnan(each) else self.n - int(each) for each in counted[rows]]
            return found[: len(pairs)]

        return meeting

    def trees(self, most_runs: int) -> list[Tree]:
        """Return the orders of additions: one, unless the orders of rows differ. Raises UnmeasurableError."""
        if self.n < 2:
            raise UnmeasurableError("it has one term")
        try:
            return [
                read_tree(self.n, self._meeting(rows), most_runs * len(rows)) for rows in self._alike()[:_MOST_ORDERS]
            ]
        except UnreadableSumError as error:
            raise UnmeasurableError(str(error)) from error

    def _alike(self) -> list[NDArray[np.intp]]:
        """Return the indices of rows in groups that gave the same answers for some pairs. Raises UnmeasurableError."""
        large, small = self.sizes
        random = np.random.default_rng(0)
        rows = np.full((_PAIRS, self.n), small)
        for each in rows:
            one, other = random.choice(self.n, 2, replace=False)
            each[one], each[other] = large, -large
        answers = np.array(self.totals([np.tile(each, (self.rows, 1)) for each in rows]))
        if np.isnan(answers).any():
            raise UnmeasurableError("what is counted is no number of terms")
        _, kinds = np.unique(answers, axis=1, return_inverse=True)
        found = [np.flatnonzero(kinds.reshape(-1) == kind) for kind in range(int(kinds.max()) + 1)]
        if len(found) > _MOST_ORDERS:
            raise UnmeasurableError("rows are summed in many orders")
        return found


def carriers(bench: SumBench) -> Iterator[Carrier]:
    """Yield a carrier for each sum of the formula that has one."""
    for node in bench.trace.nodes:
        if node.kind in SUMS:
            names = [name for name in bench.floats if {*node.over} <= {*bench.trace.tensors.get(name, ())}]
            found = (_carrier(bench, node, name) for name in names if name not in OPS[bench.like.op].columns)
            if (first := next((each for each in found if each is not None), None)) is not None:
                yield first


def _carrier(bench: SumBench, node: Node, name: str) -> Carrier | None:
    """Return the carrier for a sum and an input; None if there is none. Inputs that are no factors of the terms are
    filled with zeros, since a kernel may add them to the sum first."""
    carrier = _with_factor(Carrier(bench, node, name, 1.0))
    if carrier is not None:
        for other in bench.floats:
            if other != name:
                carrier = _with_factor(replace(carrier, zeros=carrier.zeros | {other})) or carrier
    return carrier


def _with_factor(carrier: Carrier) -> Carrier | None:
    """Return the carrier with its factor and the outputs that are linear in its sum; None if no output is."""
    bench, node, random = carrier.bench, carrier.node, np.random.default_rng(0)
    rows = random.integers(1, 8, (carrier.rows, carrier.n)).astype(np.float64)
    case = carrier.case(rows)
    found = bench.exact(case)
    elements = np.empty(rows.size)
    elements[carrier.places.reshape(-1)] = rows.reshape(-1)
    terms = math.prod((found[arg] for arg in node.args), start=np.ones(()))
    with np.errstate(all="ignore"):
        ratio = terms / bench.placed(carrier.name, elements.reshape(bench.floats[carrier.name]))
    factor = float(ratio.flat[0])
    if not (math.isfinite(factor) and factor > 0 and np.allclose(ratio, factor, rtol=_ALIKE, atol=0.0)):
        return None
    carrier = replace(carrier, factor=factor)
    at = [carrier.with_total(case, factor * carrier.n * share) for share in (0.0, 0.5, 1.0)]
    telling = []
    for name, output in bench.trace.outputs.items():
        low, middle, high = (each[output] for each in at)
        with np.errstate(all="ignore"):
            grows = np.abs(high - low) > _ALIKE * np.abs(low)
            line = np.abs((high + low) / 2 - middle) <= _ALIKE * (np.abs(high) + np.abs(low))
        if grows.any() and line.all():
            telling.append(name)
    return replace(carrier, telling=tuple(telling)) if telling else None
