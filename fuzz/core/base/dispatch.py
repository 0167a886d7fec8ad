"""Which cases are dispatched to a target: those that its kernel accepts, unless they are too large for the target."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case
from oracles.op import Op
from oracles.operand import AXIS
from oracles.ops import OPS

_TILE = 16
"""The number of rows of a small tile."""


@dataclass(frozen=True)
class SizeLimit:
    """The limits of cases that are dispatched to a slow target."""

    elements: int
    """The largest number of elements of a tensor."""
    rows: int
    """The largest number of rows, since each row may be a program of its own. See `most_rows`."""
    far: bool = False
    """Whether a tensor may span more addresses than fit into memory, with few elements far apart. Under an emulator it
    may not, since the addresses of its guest have no room for 8 GiB."""

    def holds(self, case: Case) -> bool:
        """Whether `case` is within the limits."""
        if (case.exceeds_memory and not self.far) or any(
            tensor.layout.size > self.elements for tensor in case.tensors.values()
        ):
            return False
        op = OPS[case.op]
        shape = case.inputs[op.main].layout.shape
        axis = int(case.params.get(AXIS, -1))
        return not shape or math.prod(shape) <= self.most_rows(op) * shape[axis]

    def beyond(self, op: Op) -> str:
        """Return in words which cases are beyond the limits."""
        far = "" if self.far else ", or that reach further than its memory"
        rows = f"more than {self.most_rows(op):,} rows"
        return f"those of more than {self.elements:,} elements in a tensor, or of {rows}{far}"

    def most_rows(self, op: Op) -> int:
        """Return the largest number of rows of the first input for this op: `rows`, times the op's fixed extents, and
        times the rows of a small tile if kernels use tiles of several named dimensions, since each program then
        computes several rows."""
        always = math.prod(op.fixed.get(dim, 1) for dim in op.operand(op.main).axes[:-1])
        return self.rows * always * (_TILE if len({*op.tiled} & {*op.named}) > 1 else 1)


SMALL = SizeLimit(elements=1 << 13, rows=12, far=True)
"""The limits for targets that need milliseconds for each row. In a search, larger cases visit only corners of size."""


@dataclass(frozen=True)
class Dispatch:
    """Decides whether a case is dispatched, by the kernel's capability and a slow target's limits of size."""

    capability: Capability
    size_limit: SizeLimit | None
    far: bool = True
    """Whether a tensor may span more addresses than fit into memory. Under a tool that watches a GPU it may not."""

    def accepts(self, case: Case) -> bool:
        """Whether `case` is to be run."""
        if (case.exceeds_memory and not self.far) or (self.size_limit is not None and not self.size_limit.holds(case)):
            return False
        return self.capability.is_dispatched(case)
