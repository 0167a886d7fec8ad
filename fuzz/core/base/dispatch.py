"""Which cases are dispatched to a target: those that its kernel accepts, where they are not too large for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case
from oracles.op import Op
from oracles.operand import AXIS
from oracles.ops import OPS

_TILE = 16
"""The rows of a small tile."""


@dataclass(frozen=True)
class SizeLimit:
    """The largest case that is dispatched to a slow target."""

    elements: int
    """No tensor has more elements."""
    rows: int
    """No case has more rows: each of them may be a program of its own. See `most_rows`."""
    far: bool = False
    """Tensors may reach further than memory does. An emulator bounds the addresses of its guest, so that 8 GiB have no
    place there, however few the elements."""

    def holds(self, case: Case) -> bool:
        """Whether `case` is no larger."""
        if (case.reaches_far and not self.far) or any(
            tensor.layout.size > self.elements for tensor in case.tensors.values()
        ):
            return False
        op = OPS[case.op]
        shape = case.inputs[op.main].layout.shape
        axis = int(case.params.get(AXIS, -1))
        return not shape or math.prod(shape) <= self.most_rows(op) * shape[axis]

    def beyond(self, op: Op) -> str:
        """Return what is larger, in words."""
        far = "" if self.far else ", or that reach further than its memory"
        rows = f"more than {self.most_rows(op):,} rows"
        return f"those of more than {self.elements:,} elements in a tensor, or of {rows}{far}"

    def most_rows(self, op: Op) -> int:
        """Return the number of rows that the first input may have. It is larger where kernels take tiles of several
        named dimensions, since a program has several rows there, and in proportion to its fixed extents."""
        always = math.prod(op.fixed.get(dim, 1) for dim in op.operand(op.main).axes[:-1])
        return self.rows * always * (_TILE if len({*op.tiled} & {*op.named}) > 1 else 1)


SMALL = SizeLimit(elements=1 << 13, rows=12)
"""The limit of targets that need milliseconds for each row. A search counts no corner but one of size as visited by
larger cases."""


@dataclass(frozen=True)
class Dispatch:
    """What decides whether a case is dispatched: the kernel and, for a slow target, the limit of size."""

    capability: Capability
    size_limit: SizeLimit | None

    def accepts(self, case: Case) -> bool:
        """Whether `case` is to be run."""
        return (self.size_limit is None or self.size_limit.holds(case)) and self.capability.is_dispatched(case)
