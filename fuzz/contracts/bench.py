"""Running cases on one target that differ only in their values, and evaluating the op's formula for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def is_like(self, name: str, other: str) -> bool:
        """Whether two inputs have the same dimensions."""
        return self.trace.tensors[name] == self.trace.tensors[other]

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
