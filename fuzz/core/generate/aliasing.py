"""Cases whose tensors share memory: one buffer is given as two inputs, or an output overlaps an input in part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case, CaseError, Layout, contiguous
from fuzz.core.base.draw import Draw, Placement
from fuzz.core.base.feature import Feature
from fuzz.core.base.memory import shift
from fuzz.core.base.stream import Dice
from fuzz.core.generate.capabilities import may_share
from fuzz.core.generate.realise import draw_of, layout_of, realise
from oracles.op import Op
from oracles.ops import OPS

ONE_IN = 12
"""One in this many drawn cases has tensors that share memory. Chosen."""


@dataclass(frozen=True)
class _Sharing:
    """A way in which two tensors can share memory."""

    name: str
    other: str
    kind: str
    """'overlap' if an output overlaps an input in part, 'shared' if two inputs are one buffer."""

    @property
    def label(self) -> tuple[str, str, str]:
        """The coverage label, such as ('y', 'over', 'x') or ('residual', 'is', 'x')."""
        return self.name, "is" if self.kind == "shared" else "over", self.other


def aliased(case: Case, capability: Capability, dice: Dice) -> Case:
    """Return the case with two tensors that share memory, if the kernel accepts such a case or promises to reject it.
    Otherwise return the case unchanged. The labels of the result are those of the shared memory alone."""
    ways = list(_sharings(case))
    shared = _with_shared_memory(case, dice.pick(ways), dice.below(2**32), dice.below(2**32)) if ways else None
    return shared if shared is not None and capability.is_dispatched(shared) else case


def aliased_as(case: Case, label: tuple[str | int, ...], turn: int) -> Case:
    """Return the case with two tensors that share memory in the way that `label` names, in another way each turn.
    Return the case unchanged if that is impossible."""
    way = next((way for way in _sharings(case) if way.label == label), None)
    return (_with_shared_memory(case, way, turn, turn) if way is not None else None) or case


def memory_labels(capability: Capability) -> Iterator[tuple[str, str, str]]:
    """Yield the labels of the ways in which tensors of a case within the capability can share memory."""
    op = OPS[capability.op]
    if not capability.shares_memory:
        return
    for output, source in op.aliases:
        if (output, source) in capability.able.overlap and may_share(capability, output, source):
            yield _Sharing(output, source, "overlap").label
    for name in _addable(op):
        if may_share(capability, name, op.main):
            yield _Sharing(name, op.main, "shared").label


def _addable(op: Op) -> Iterator[str]:
    """Yield the names of inputs that can be the same buffer as the first input."""
    return (operand.name for operand in op.inputs if operand.name in op.alike and operand.name != op.main)


def _with_shared_memory(case: Case, way: _Sharing, how: int, far: int) -> Case | None:
    draw = draw_of(case)
    changed = _shared(draw, way) if way.kind == "shared" else _overlapping(draw, way, how, far)
    try:
        made = realise(replace(changed, origin=replace(case.origin, labels=((Feature("memory"), way.label),))))
    except CaseError:  # two outputs would meet
        return None
    if way.kind == "overlap" and (way.name, way.other, "overlap") not in made.meetings():
        return None  # too small to overlap in part
    return made


def _sharings(case: Case) -> Iterator[_Sharing]:
    op = OPS[case.op]
    for output, source in op.aliases:
        if output not in case.outputs or source not in case.inputs or case.outputs[output].alias is not None:
            continue
        tensor = case.inputs[source]
        if tensor.dtype == case.outputs[output].dtype and tensor.layout.size > 0 and 0 not in tensor.layout.strides:
            yield _Sharing(output, source, "overlap")
    aliased = {output.alias for output in case.outputs.values()}
    for name in _addable(op):
        if name in case.inputs and name not in aliased and case.inputs[name].dtype == case.inputs[op.main].dtype:
            yield _Sharing(name, op.main, "shared")


def _shared(draw: Draw, way: _Sharing) -> Draw:
    """Return the draw with two inputs in one buffer. It is marked as structured: rounding errors of equal rows are not
    independent, so only the worst-case budget is sound."""
    return replace(draw.with_parts(replace(draw.part(way.name), alias=way.other)), structured=True)


def _overlapping(draw: Draw, way: _Sharing, how: int, far: int) -> Draw:
    """Return the draw with the output placed before or after the input in the same memory, at a distance of one
    element, one row, or any distance at which the two still overlap."""
    source = draw.part(way.other)
    extent = layout_of(draw, source).extent
    step = min((1, max(draw.n, 1), 1 + far % extent)[how % 3], max(extent - 1, 1))
    source = replace(source, placement=replace(source.placement, offset=max(source.placement.offset, step)))
    moved = layout_of(draw, source)
    over = _moved_by(moved, step if how // 3 % 2 else -step, how // 6)
    output = replace(
        draw.part(way.name),
        placement=Placement(guard=over.guard, offset=over.offset, strides=over.strides),
        alias=way.other,
        shift=(shift(moved, over), 0),
    )
    return draw.with_parts(source, output)


def _moved_by(layout: Layout, shift: int, turn: int) -> Layout:
    """Return a layout `shift` elements further from the guard page, with its strides or in C order without gaps."""
    dense = contiguous(layout.shape, layout.guard, layout.offset + shift)
    return dense if turn % 2 else replace(layout, offset=layout.offset + shift)
