"""A fixed series of cases that are big in one respect but cheap in memory. A search visits each of them once, late.
They have many rows of a few elements; a row of more than 2^23 elements; two rows so far apart that offsets need more
than 29, 31 or 32 bits, or five, of which only the offset of the last needs 31; or, for ops without sums, all 2^16
numbers of a 16-bit dtype in one input. Tensors whose elements lie far apart are sparse: only the pages near their
elements exist (see `core/transport/native/sparse.c` and `core/transport/python/slab.py`), so they take little memory.
Bytes between elements on these pages are poisoned and checked, as in every case. All other pages are inaccessible, and
a kernel that touches them faults, on a GPU too (see `core/transport/python/reserved.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from fuzz.core.base.case import Case, Origin
from fuzz.core.base.draw import GIVEN, Draw, Given, Part, Placement
from fuzz.core.base.dtypes import NUMPY_DTYPE, quantise
from fuzz.core.base.feature import Feature
from fuzz.core.base.stream import Stream
from fuzz.core.generate.given import given_rows
from fuzz.core.generate.realise import realise
from oracles.algorithm import traced
from oracles.dtypes import ITEMSIZE, NARROW, SINGLE
from oracles.op import Op
from oracles.operand import AXIS, OUTER, Operand, Parameter
from oracles.ops import OPS

_RECIPE = "normal"


@dataclass(frozen=True)
class Big:
    """One case of the series."""

    name: str
    after: int
    """The number of turns of the search that come before this case."""
    rows: int
    n: int
    pitch: int | None = None
    """The distance between rows in elements, for tensors of the first input's shape; it differs a little for each."""
    dtype: str = SINGLE.name
    grids: int | None = None
    """The most tensors of the first input's shape that the op may have. More would take the oracle too much memory."""
    swept: int | None = None
    """The index of the input that gets every number of the dtype, NaNs and infinities included, among the inputs of the
    first input's shape. Only for ops in which each output element depends on one element of each input."""

    def fits(self, op: Op) -> bool:
        """Whether the op can have this case: it is defined for rows of this length and has no further dimensions, which
        would multiply the number of elements."""
        if op.further or op.fixed or not op.any_axis or not op.has_fixed((self.rows, self.n), 1, {}):
            return False
        if self.swept is not None:
            return self.swept < len(_full_inputs(op)) and _is_elementwise(op)
        needed = [each for each in op.operands if each.name in op.alike and not each.optional]
        return self.grids is None or len(needed) <= self.grids

    def placement(self, op: Op, name: str, number: int) -> Placement:
        """Return the placement of the op's tensor `name`, operand `number`, with rows `pitch` apart if that is set."""
        if name not in op.alike or self.pitch is None:
            return Placement()
        pitch = self.pitch + (number if self.pitch > 0 else -number)
        return Placement(guard="before" if number % 2 else "after", strides=(pitch, 1))


SERIES: tuple[Big, ...] = (
    Big("rows65536", 64, rows=65536, n=3),
    Big("rows65537", 68, rows=65537, n=1),
    Big("pitch2^31", 72, rows=2, n=33, pitch=2**31 + 37),
    Big("pitch2^29 of 5", 76, rows=5, n=33, pitch=2**29 + 37),
    Big("rows70000", 80, rows=70000, n=4),
    Big("rows70001", 84, rows=70001, n=2),
    Big("pitch-2^31", 88, rows=2, n=33, pitch=-(2**31) - 37),
    Big("pitch2^29", 96, rows=2, n=33, pitch=2**29 + 37),  # 2^31 bytes
    Big("pitch2^32", 104, rows=2, n=33, pitch=2**32 + 37),
    Big("n8388624", 1500, rows=1, n=2**23 + 16, dtype="f16", grids=2),
)
SWEEPS: tuple[Big, ...] = tuple(
    Big(f"every {dtype} of {swept}", 4 + 2 * swept, rows=256, n=256, dtype=dtype, swept=swept)
    for swept in range(3)
    for dtype in NARROW
)
"""The cases in which one input has every number of a dtype. They come before the cases of `SERIES`."""


@dataclass(frozen=True)
class Due:
    """A big case with its number in the series of its op, from 1."""

    number: int
    big: Big
    optional: bool
    """Whether the case has all optional tensors; if not, it has none."""
    place: int
    """The index of `big` in the series."""

    @property
    def after(self) -> int:
        """The turn of a search, from 0, after which this case is run."""
        return self.big.after


def series(op: str) -> Iterator[Due]:
    """Yield all big cases of an op. Cases with short rows come twice: without optional tensors and with all of them."""
    numbers = count(1)
    for place, big in enumerate(big for big in (*SWEEPS, *SERIES) if big.fits(OPS[op])):
        for optional in (False, True) if OPS[op].optional and big.n < 2**20 else (False,):
            yield Due(next(numbers), big, optional, place)


def big_case(big: Big, op_name: str, optional: bool) -> Case:
    """Return the bit-exact case, with all optional tensors or with none."""
    op, stream = OPS[op_name], Stream(0).child(big.name)
    wanted = [operand for operand in op.operands if optional or not operand.optional]
    parts = []
    for number, operand in enumerate(wanted):
        dtype = operand.dtype if operand.dtype in ITEMSIZE else big.dtype
        part = Part(operand.name, dtype, big.placement(op, operand.name, number))
        given = _given(big, op, operand, dtype, stream.child(operand.name)) if op.is_input(operand.name) else None
        parts.append(replace(part, recipe=GIVEN, given=given) if given is not None else part)
    origin = Origin(_RECIPE, big.name, labels=((Feature("big"), big.name),))
    params = {**{each.name: usual(each) for each in op.parameters if each.neutral is None}, AXIS: 1}
    return realise(Draw(op_name, big.n, (big.rows,), params, 0, tuple(parts), structured=False, origin=origin))


def usual(parameter: Parameter) -> float:
    """Return the middle one of the values that are drawn for a parameter: neither the plainest nor the oddest."""
    return parameter.values[len(parameter.values) // 2]


def _full_inputs(op: Op) -> list[str]:
    """Return the names of the inputs that are always present, have the first input's shape, and hold no integers."""
    return [each.name for each in op.inputs if each.name in op.alike and not each.optional and not each.integers]


def _is_elementwise(op: Op) -> bool:
    """Whether each output element depends on only one element of each input."""
    graph = traced(op, [*(each.name for each in op.operands), *(each.name for each in op.parameters)])
    return not graph.meeting


def _given(big: Big, op: Op, operand: Operand, dtype: str, stream: Stream) -> Given:
    """Return random normal values for an input, or positive values if the input has one number for each row. The swept
    input gets every number of the dtype."""
    if big.swept is not None and operand.name == _full_inputs(op)[big.swept]:
        every = np.arange(big.rows * big.n, dtype=np.uint16).view(NUMPY_DTYPE[dtype])
        return given_rows(every.reshape(big.rows, big.n))
    rows, n = (big.rows if OUTER in operand.axes else 1), (big.n if operand.axes[-1:] != (OUTER,) else 1)
    values = stream.normal(rows * n).reshape(rows, n)
    return given_rows(quantise(np.abs(values) + 0.5 if operand.axes == (OUTER,) else values, dtype))
