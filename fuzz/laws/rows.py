"""Laws of rows: what becomes of a row does not depend on which other rows there are, or where among them it stands.

All three pick rows along the outermost axis that is not normalised, of all tensors with rows, and keep the strides.
A permuted row lies at another address, so `row_permutation` also asks that a row's own alignment be of no influence;
the two batch laws keep the alignment of every row. Nothing is said of an output that has no rows, as the gradient of
a weight: it is a sum over them, whose order and number are what changes; nor of an op that is not a row op, whose
dimensions may all meet in a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import CACHE_LINE, ITEMSIZE, Case, Layout, Output, Tensor
from fuzz.base.dtypes import from_bits
from fuzz.base.stream import Stream
from fuzz.laws.law import Law, Outputs
from fuzz.laws.placement import distinct, moved_to, placed
from oracles.declared import AXIS
from oracles.ops import OPS

Rows = NDArray[np.int64]
"""For each row block of the twin, the one of the case that it is."""
Pick = Callable[[Case, Stream], Rows]

_MOST_APPENDED = 16384
"""Elements that appending may add, unless a single row block is larger. A twin should cost no more than its case, and
few cases have more elements than that."""


def row_axis(case: Case) -> int | None:
    """The outermost axis of the first input along which rows follow one another; None where there are no rows to pick
    from.

    Not one along which each position has columns of its own, as weights.
    """
    op, shape = OPS[case.op], _grid(case)
    if not op.by_rows or AXIS not in case.params or any(0 in tensor.layout.shape for tensor in case.tensors.values()):
        return None
    axes = [axis for axis in range(len(shape)) if axis != int(case.params[AXIS])]
    columns = [tensor.layout.shape for name, tensor in case.inputs.items() if op.role(name) == "columns"]
    if any(len(shape) > 1 and shape[0] > 1 for shape in columns):
        axes = axes[:-1]
    return next((axis for axis in axes if shape[axis] > 1), axes[0] if axes else None)


def _grid(case: Case) -> tuple[int, ...]:
    return case.inputs[OPS[case.op].main].layout.shape


def _axes(case: Case) -> dict[str, int]:
    """The axis along which each tensor has the rows; without those that have no part in them, as weights."""
    axis = row_axis(case)
    if axis is None:
        return {}
    of_role = {"grid": axis, "rows": axis - (axis > int(case.params[AXIS]))}
    roles = {name: OPS[case.op].role(name) for name in case.tensors}
    return {name: of_role[role] for name, role in roles.items() if role in of_role}


def _extent(case: Case) -> int:
    """Row blocks to pick from."""
    axis = row_axis(case)
    return 0 if axis is None else _grid(case)[axis]


def _permuted(case: Case, stream: Stream) -> Rows:
    rows = np.argsort(stream.words(_extent(case)), kind="stable").astype(np.int64)
    in_order = bool((rows == np.arange(rows.size)).all())
    return np.roll(rows, 1) if in_order else rows


def _subset(case: Case, stream: Stream) -> Rows:
    """A run of neighbours, so that strides and alignments stay what they are."""
    extent = _extent(case)
    count, start = (int(word) for word in stream.words(2))
    count = 1 + count % (extent - 1)
    start %= extent - count + 1
    return np.arange(start, start + count, dtype=np.int64)


def _appended(case: Case, stream: Stream) -> Rows:
    """All rows, then copies of some: what the copies become is known as well."""
    extent = _extent(case)
    block = math.prod(_grid(case)) // extent
    most = max(1, min(extent + 8, _MOST_APPENDED // block))
    count = int(stream.child("count").integers(1, 1, most)[0])
    return np.concatenate([np.arange(extent, dtype=np.int64), stream.child("copies").integers(count, 0, extent - 1)])


def _picked_layout(layout: Layout, axis: int, rows: Rows, itemsize: int) -> Layout:
    shape = (*layout.shape[:axis], len(rows), *layout.shape[axis + 1 :])
    # The twin's first row stays at the alignment that this row has in the case; a permutation leaves the base alone.
    first = 0 if len(rows) == layout.shape[axis] else int(rows[0])
    alignment = (layout.alignment(itemsize) + first * layout.strides[axis] * itemsize) % CACHE_LINE
    return placed(replace(layout, shape=shape), itemsize, alignment)


def _picked_bits(tensor: Tensor | Output, bits: bytes, axis: int, rows: Rows) -> bytes:
    values = from_bits(bits, tensor.dtype, tensor.layout.shape)
    return np.ascontiguousarray(values.take(rows, axis=axis)).tobytes()


def _law(name: str, summary: str, applies: Callable[[Case], bool], pick: Pick, tickets: int = 1) -> Law:
    def twin(case: Case, stream: Stream) -> Case:
        rows, axes = pick(case, stream), _axes(case)

        def layout_of(name: str, tensor: Tensor | Output) -> Layout:
            if name not in axes:
                return tensor.layout
            return _picked_layout(tensor.layout, axes[name], rows, ITEMSIZE[tensor.dtype])

        def bits_of(name: str, tensor: Tensor) -> bytes:
            return _picked_bits(tensor, tensor.bits, axes[name], rows) if name in axes else tensor.bits

        inputs = {n: Tensor(t.dtype, layout_of(n, t), bits_of(n, t)) for n, t in case.inputs.items()}
        outputs = {n: replace(output, layout=layout_of(n, output)) for n, output in case.outputs.items()}
        return moved_to(case, inputs, outputs)

    def expected(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
        rows = pick(case, stream)
        return {
            name: _picked_bits(case.outputs[name], outputs[name], axis, rows)
            for name, axis in _axes(case).items()
            if name in case.outputs
        }

    return Law(name, summary, applies, twin, expected, tickets=tickets)


def _with_rows(case: Case) -> list[tuple[Tensor | Output, int]]:
    """The tensors that have rows, each with their axis."""
    return [(case.tensors[name], axis) for name, axis in _axes(case).items()]


def _has_distinct_rows(case: Case) -> bool:
    """Several rows, none of which shares memory with another: expanded rows cannot hold different values."""
    return _extent(case) > 1 and all(distinct(tensor.layout) for tensor, _ in _with_rows(case))


def _can_grow(case: Case) -> bool:
    """Rows can follow the last one at the same stride without running into what lies between the rows."""
    return row_axis(case) is not None and all(
        distinct(_grown(tensor.layout, axis)) for tensor, axis in _with_rows(case)
    )


def _grown(layout: Layout, axis: int) -> Layout:
    """The layout with one row more. Where that keeps all elements apart, any number of rows more does."""
    return replace(layout, shape=(*layout.shape[:axis], layout.shape[axis] + 1, *layout.shape[axis + 1 :]))


ROW_PERMUTATION = _law("row_permutation", "rows in another order", _has_distinct_rows, _permuted)
BATCH_SUBSET = _law("batch_subset", "some of the rows alone", lambda case: _extent(case) > 1, _subset, 2)
BATCH_APPEND = _law("batch_append", "more rows after the last one", _can_grow, _appended, 2)
