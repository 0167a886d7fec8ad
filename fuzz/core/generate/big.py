"""Cases that are big in one coordinate and cheap in memory: a fixed series, visited once in a run, late. Many rows of a
few elements; a row of more than 2^23; two rows so far apart that offsets need more than 29, 31 or 32 bits; and, for ops
without sums, all 2^16 numbers of a 16-bit dtype in one input. Tensors that reach far are sparse: only the pages near
their elements exist (see `core/transport/native/sparse.c`), so they take no memory. On those pages everything else is
poisoned and checked, as everywhere; the rest is inaccessible, and touching it is a fault."""

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
    """The number of turns of the search that come before it."""
    rows: int
    n: int
    pitch: int | None = None
    """The distance of rows in elements, for tensors of the first input's shape; each such tensor has another pitch, a
    few elements more."""
    dtype: str = SINGLE.name
    grids: int | None = None
    """The most tensors of its size that an op may have: with more, the oracle would need too much memory."""
    swept: int | None = None
    """The number of the input, among those of the full shape, that gets every number of the dtype, NaNs and infinities
    too; for ops whose output elements depend on no other elements."""

    def fits(self, op: Op) -> bool:
        """Whether it is for that op, which has a meaning for rows of that length. Many rows, and long ones, are what
        further dimensions multiply."""
        if op.further or op.fixed or not op.turns or not op.has_fixed((self.rows, self.n), 1, {}):
            return False
        if self.swept is not None:
            return self.swept < len(_full_inputs(op)) and _is_elementwise(op)
        needed = [each for each in op.operands if each.name in op.alike and not each.optional]
        return self.grids is None or len(needed) <= self.grids

    def place(self, op: Op, name: str, number: int) -> Placement:
        """Return where the op's tensor with that name and number lies."""
        if name not in op.alike or self.pitch is None:
            return Placement()
        pitch = self.pitch + (number if self.pitch > 0 else -number)
        return Placement(guard="before" if number % 2 else "after", strides=(pitch, 1))


SERIES: tuple[Big, ...] = (
    Big("rows65536", 64, rows=65536, n=3),
    Big("rows65537", 68, rows=65537, n=1),
    Big("pitch2^31", 72, rows=2, n=33, pitch=2**31 + 37),
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
"""The cases with every number of a dtype; they come before those of `SERIES`."""


@dataclass(frozen=True)
class Due:
    """A big case with its number in the series of its op, from 1."""

    number: int
    big: Big
    optional: bool
    """Whether all optional tensors are there, or none."""
    place: int
    """The index of `big` in the series."""

    @property
    def after(self) -> int:
        """The turn of a search, from 0, after which it comes."""
        return self.big.after


def series(op: str) -> Iterator[Due]:
    """Yield all big cases of an op: each without optional tensors and with all of them."""
    numbers = count(1)
    for place, big in enumerate(big for big in (*SWEEPS, *SERIES) if big.fits(OPS[op])):
        for optional in (False, True) if OPS[op].optional and big.n < 2**20 else (False,):
            yield Due(next(numbers), big, optional, place)


def big_case(big: Big, op_name: str, optional: bool) -> Case:
    """Return the bit-exact case."""
    op, stream = OPS[op_name], Stream(0).child(big.name)
    wanted = [operand for operand in op.operands if optional or not operand.optional]
    parts = []
    for number, operand in enumerate(wanted):
        dtype = operand.dtype if operand.dtype in ITEMSIZE else big.dtype
        part = Part(operand.name, dtype, big.place(op, operand.name, number))
        given = _given(big, op, operand, dtype, stream.child(operand.name)) if op.is_input(operand.name) else None
        parts.append(replace(part, recipe=GIVEN, given=given) if given is not None else part)
    origin = Origin(_RECIPE, big.name, labels=((Feature("big"), big.name),))
    params = {**{each.name: usual(each) for each in op.parameters if each.neutral is None}, AXIS: 1}
    return realise(Draw(op_name, big.n, (big.rows,), params, 0, tuple(parts), structured=False, origin=origin))


def usual(parameter: Parameter) -> float:
    """Return a value in the middle of those that are drawn: neither the plainest nor the oddest."""
    return parameter.values[len(parameter.values) // 2]


def _full_inputs(op: Op) -> list[str]:
    """Return the inputs that are always there and have the shape of the first one."""
    return [each.name for each in op.inputs if each.name in op.alike and not each.optional and not each.integers]


def _is_elementwise(op: Op) -> bool:
    """Whether each element depends on one of each input alone."""
    graph = traced(op, [*(each.name for each in op.operands), *(each.name for each in op.parameters)])
    return not graph.meeting


def _given(big: Big, op: Op, operand: Operand, dtype: str, stream: Stream) -> Given:
    """Return random values; positive ones for an input with one number for each row; every number of the dtype for the
    swept input."""
    if big.swept is not None and operand.name == _full_inputs(op)[big.swept]:
        every = np.arange(big.rows * big.n, dtype=np.uint16).view(NUMPY_DTYPE[dtype])
        return given_rows(every.reshape(big.rows, big.n))
    rows, n = (big.rows if OUTER in operand.axes else 1), (big.n if operand.axes[-1:] != (OUTER,) else 1)
    values = stream.normal(rows * n).reshape(rows, n)
    return given_rows(quantise(np.abs(values) + 0.5 if operand.axes == (OUTER,) else values, dtype))
