"""Which cases a target is given: those that its kernel takes, where they are not too large for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fuzz.case import Case
from fuzz.execute.accept import is_given
from fuzz.generate.stream import Stream
from fuzz.kernel import Kernel


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
    one_in: int = 1
    """in a search beside quicker targets, cases of which one is given, that these need not wait for it."""

    def holds(self, case: Case) -> bool:
        """True when `case` is no larger."""
        if (case.reaches_far and not self.far) or any(
            tensor.layout.size > self.elements for tensor in case.tensors.values()
        ):
            return False
        shape = case.inputs["x"].layout.shape
        axis = int(case.params.get("axis", -1))
        return not shape or math.prod(shape) <= self.rows * shape[axis]


_FIRST = 16
"""cases of a search that even the slowest target is given, whatever its share: it may take few of them."""


def its_share(cases: Sequence[Case], indices: Sequence[int], one_in: int, before: int) -> list[int]:
    """Those of the cases that a slow target is given which had `before` of them offered. A case's seed decides, which
    its twins share: they are given together."""
    return [
        index
        for number, index in enumerate(indices, start=before)
        if number < _FIRST or Stream(cases[index].origin.seed).child("share").key % one_in == 0
    ]


@dataclass(frozen=True)
class Giving:
    """What decides whether a case is given: the kernel and, for a slow target, the largest case."""

    kernel: Kernel
    largest: Largest | None

    def gives(self, case: Case) -> bool:
        """True when `case` is to be run."""
        return (self.largest is None or self.largest.holds(case)) and is_given(self.kernel, case)
