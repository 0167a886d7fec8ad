"""A law: what may change about a case, and what must then follow for its outputs, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Case
from fuzz.base.stream import Stream

Outputs = Mapping[str, bytes]
"""logical elements of each output in C order, little-endian."""


Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Leeway:
    """What a law says nothing of."""

    zeros: bool = False
    """the signs of zeros."""
    elements: Mapping[str, Mask] = field(default_factory=dict)
    """of an output: these elements of the twin."""


STRICT = Leeway()


def unchanged(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
    """The expectation of most laws: the twin's outputs are the case's."""
    return outputs


@dataclass(frozen=True)
class Law:
    """A property checked without an oracle. Its functions are pure: one case and stream give one twin, for ever.

    Rows that hold NaN or infinity take part in every law: what a row becomes depends on that row's values alone, so
    its NaNs and signed zeros must follow the law as well. Only the payload and the sign of a NaN are free.
    """

    name: str
    summary: str
    """what must not change a bit, in plain words."""
    applies: Callable[[Case], bool]
    """False where the law says nothing, or does not hold even for a correct kernel."""
    twin: Callable[[Case, Stream], Case]
    """the changed case; only for a case to which the law applies."""
    expected: Callable[[Case, Stream, Outputs], Outputs] = unchanged
    """the twin's outputs, made of the case's; an output that is not there may be anything."""
    leeway: Callable[[Case, Stream, Outputs], Leeway] = lambda case, stream, outputs: STRICT
    """what of these outputs may be anything."""
    tickets: int = 1
    """in the draw of the law that a case is checked by: laws that fit few cases hold more."""


@dataclass(frozen=True)
class LawCheck:
    """One law with the key of its stream: applied to a case it gives one twin and one expectation."""

    law: Law
    key: int

    @property
    def name(self) -> str:
        return self.law.name

    def twin(self, case: Case) -> Case:
        """The case whose outputs follow from those of `case`."""
        return self.law.twin(case, self._stream)

    def expected(self, case: Case, outputs: Outputs) -> Outputs:
        """What the twin's outputs must be, given those of `case`."""
        return self.law.expected(case, self._stream, outputs)

    def leeway(self, case: Case, outputs: Outputs) -> Leeway:
        """What of the twin's outputs may be anything, given those of `case`."""
        return self.law.leeway(case, self._stream, outputs)

    def seal(self, case: Case) -> str:
        """A digest of the law, the key and the twin. It differs where a file was altered, and where a later version's
        law would make another twin: a replay of that would judge something that was never seen."""
        return hashlib.sha256(f"{self.name}/{self.key}/{self.twin(case).digest}".encode()).hexdigest()

    @property
    def _stream(self) -> Stream:
        return Stream(self.key).child(self.name)
