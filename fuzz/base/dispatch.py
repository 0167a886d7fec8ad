"""Which cases a target is given: those that its kernel takes, where they are not too large for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fuzz.base.capability import is_given
from fuzz.base.case import Case
from fuzz.base.kernel import Kernel


@dataclass(frozen=True)
class Largest:
    """The largest case that a slow target is given."""

    elements: int
    """of any tensor."""
    rows: int
    """each of them may be a program of its own."""
    far: bool = False
    """tensors may reach further than memory does. An emulator bounds the addresses of its guest, so that 8 GiB have no
    place there, however few the elements."""

    def holds(self, case: Case) -> bool:
        """True when `case` is no larger."""
        if (case.reaches_far and not self.far) or any(
            tensor.layout.size > self.elements for tensor in case.tensors.values()
        ):
            return False
        shape = case.inputs["x"].layout.shape
        axis = int(case.params.get("axis", -1))
        return not shape or math.prod(shape) <= self.rows * shape[axis]


SMALL = Largest(elements=1 << 13, rows=12)
"""for who needs milliseconds for each row. A search counts no corner but one of size as visited by larger cases."""


@dataclass(frozen=True)
class Giving:
    """What decides whether a case is given: the kernel and, for a slow target, the largest case."""

    kernel: Kernel
    largest: Largest | None

    def gives(self, case: Case) -> bool:
        """True when `case` is to be run."""
        return (self.largest is None or self.largest.holds(case)) and is_given(self.kernel, case)
