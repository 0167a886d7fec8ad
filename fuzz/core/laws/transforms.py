"""Transforms such as Fourier's, and the law of impulses: of a row that is 1 at one place and 0 elsewhere, a transform
returns its own factors. An error of these, or of one result, is then not hidden beside the rest of a row, to whose
magnitudes a transform is otherwise held.

That a transform is linear, and that a shift of the row turns each result by an angle, follows where all impulses are
right and sums of them are; so these two name what is wrong, see `fuzz.explain.stages.bench`, and find no more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fuzz.core.base.case import Case
from fuzz.core.base.dtypes import numbers, quantise
from fuzz.core.base.stream import Stream
from fuzz.core.laws.law import Law, Leeway, Outputs, first_difference, has_elements
from oracles.algorithm import traced
from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, form
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.node import REDUCTIONS, Node, ordered
from oracles.op import Op
from oracles.operand import AXIS
from oracles.ops import OPS, remembered
from oracles.problem import Problem
from oracles.truth import Truth

_FIRST, _MORE = 16.0, 8.0
"""The units of the largest result by which the transform of an impulse may be off: `_FIRST`, and `_MORE` for each
doubling of the length. Measured for lengths from 2 to 1,024: NumPy, torch and SciPy are off by at most 13; by halves
with angles of f32 15; as a convolution (Bluestein's) with angles of f32 30, where 96 are allowed."""
_MOST = 1 << 18
"""The most elements of a case and of its factors, so that the exact transform takes no time to speak of."""


_TOTAL, *_ = REDUCTIONS
"""The kind of plain sums."""


def _is_room(node: Node) -> bool:
    """Whether a node is `a + size - size`, in which a formula says that its errors are those of a whole row."""
    return node.kind == "subtract" and node.args[0].kind == "add" and node.args[0].args[1] is node.args[1]


def _degrees(outputs: Sequence[Node]) -> Mapping[Node, int | None]:
    """Return for each node 0 if no input enters, 1 if it is a linear function of the inputs, and None otherwise."""
    found = dict[Node, int | None]()
    for node in ordered(outputs):
        own = [found[each] for each in node.args]
        if _is_room(node):
            found[node] = found[node.args[0].args[0]]
        elif node.kind == "tensor":
            found[node] = 1
        elif not any(own) and None not in own:
            found[node] = 0
        elif node.kind in ("multiply", "dot"):
            found[node] = sum(own) if None not in own and sum(map(int, own)) == 1 else None  # type: ignore[arg-type]
        elif node.kind in ("negate", "point", "take", "divide", "within", _TOTAL):
            found[node] = 1 if own[0] == 1 and not any(own[1:]) and None not in own else None
        elif node.kind in ("add", "subtract"):
            zero = [each.kind == "constant" and not each.value for each in node.args]
            found[node] = 1 if all(each == 1 or no for each, no in zip(own, zero, strict=True)) else None
        elif node.kind == "where":
            zero = [each.kind == "constant" and not each.value for each in node.args[1:]]
            parts = all(each == 1 or no for each, no in zip(own[1:], zero, strict=True))
            found[node] = 1 if own[0] == 0 and parts else None
        else:
            found[node] = None
    return found


@remembered(64)
def is_transform(op: Op) -> bool:
    """Whether an op is linear in all of its inputs together, and held to magnitudes of whole rows."""
    if any(each.integers or each.optional for each in op.operands):
        return False
    outputs = _graph(op)
    degrees = _degrees(outputs)
    return all(degrees[each] == 1 for each in outputs) and any(map(_is_room, degrees))


def _graph(op: Op) -> list[Node]:
    return [*traced(op, [*op.params, *(each.name for each in op.operands)]).outputs.values()]


@dataclass(frozen=True)
class Impulses:
    """The unit impulses of a case of a transform, one in each slice along the first axis if that is a batch."""

    case: Case

    @cached_property
    def batch(self) -> int:
        """The number of slices that are transformed alone."""
        op, case = OPS[self.case.op], self.case
        first = {each.axes[0] for each in op.operands}
        reduced = {dim for each in ordered(_graph(op)) if each.kind in REDUCTIONS for dim in each.over}
        alone = len(first) == 1 and not first & reduced and all(each.layout.shape[1:] for each in case.tensors.values())
        alone = alone and (not op.any_axis or case.params.get(AXIS) != 0)
        return case.inputs[op.main].layout.shape[0] if alone else 1

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The number of elements of each input in a slice."""
        return {name: each.layout.size // self.batch for name, each in self.case.inputs.items()}

    def at(self, name: str, places: Sequence[int]) -> Case:
        """Return the case with a 1 in one input, at a place of each slice, and 0 elsewhere."""
        made = {}
        for each, tensor in self.case.inputs.items():
            values = np.zeros((self.batch, self.sizes[each]))
            if each == name:
                values[np.arange(self.batch), places] = 1.0
            made[each] = replace(tensor, bits=quantise(values.ravel(), tensor.dtype).tobytes())
        return replace(self.case, inputs=made)

    @property
    def are_few(self) -> bool:
        """Whether the case has elements, and few."""
        sizes = [each.layout.size for each in self.case.tensors.values()]
        return min(sizes, default=0) > 0 and max(sizes) * max(self.sizes.values()) <= _MOST


def exact_outputs(case: Case) -> Mapping[str, F64]:
    """Return the outputs of a case by its formula in float64, as a kernel returns them."""
    known = {name: numbers(each.bits, each.dtype, each.layout.shape) for name, each in case.inputs.items()}
    outputs = {name: each.dtype for name, each in case.outputs.items()}
    problem = Truth(Problem(case.op, case.params, known, outputs, structured=case.structured), confirms=False).op
    graph = problem.plain.trace
    values = evaluate(Inputs(graph, problem.tensors, problem.parameters), Float64())
    return {name: problem.returned(name, values[node]) for name, node in graph.outputs.items()}


def room_of(case: Case, exact: Mapping[str, F64]) -> float:
    """Return how far each output of an impulse may be off."""
    length = max(1, *Impulses(case).sizes.values())
    unit = max(form(each.dtype).u for each in case.outputs.values())
    most = max(float(np.abs(each).max(initial=0.0)) for each in exact.values())
    return (_FIRST + _MORE * math.log2(length)) * unit * most


def is_kept(case: Case, outputs: Outputs) -> bool:
    """Whether these are the outputs of a case of impulses."""
    exact = exact_outputs(case)
    wanted = {name: quantise(each.ravel(), case.outputs[name].dtype).tobytes() for name, each in exact.items()}
    same = {*wanted} <= {*outputs}
    return same and first_difference(case.outputs, wanted, outputs, Leeway(within=room_of(case, exact))) is None


def _applies(case: Case) -> bool:
    wide = DOUBLE.name in {each.dtype for each in case.tensors.values()}
    return has_elements(case) and not wide and is_transform(OPS[case.op]) and Impulses(case).are_few


def _twin(case: Case, stream: Stream) -> Case:
    impulses, names = Impulses(case), [*case.inputs]
    which, *words = (int(each) for each in stream.words(1 + impulses.batch))
    name = names[which % len(names)]
    return impulses.at(name, [word % impulses.sizes[name] for word in words])


def _expected(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
    exact = exact_outputs(_twin(case, stream))
    return {name: quantise(each.ravel(), case.outputs[name].dtype).tobytes() for name, each in exact.items()}


def _leeway(case: Case, stream: Stream, outputs: Outputs) -> Leeway:
    twin = _twin(case, stream)
    return Leeway(zeros=True, within=room_of(twin, exact_outputs(twin)))


IMPULSE = Law(
    "impulse", "each row a unit impulse, of which a transform returns its own factors", _applies, _twin, _expected,
    _leeway, tickets=3, suits=is_transform,
)  # fmt: skip
