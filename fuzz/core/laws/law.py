"""A law: what may change about a case, and what its outputs must then be, bit for bit."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case, Output
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.stream import Stream
from fuzz.core.base.text import counted
from oracles.enclosure import Mask
from oracles.op import Op
from oracles.ops import OPS

Outputs = Mapping[str, bytes]
"""The elements of each output in C order, little-endian."""


@dataclass(frozen=True)
class Leeway:
    """Differences that a law allows."""

    zeros: bool = False
    """Whether zeros may have either sign."""
    elements: Mapping[str, Mask] = field(default_factory=dict)
    """By output, the elements of the twin that may be anything."""


STRICT = Leeway()


def has_elements(case: Case) -> bool:
    """Return whether there is anything that most laws could change."""
    return all(tensor.layout.size > 0 for tensor in case.inputs.values())


def unchanged(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
    """Return the case's outputs, which most laws expect of the twin."""
    return outputs


@dataclass(frozen=True)
class Probe:
    """Messages about a kernel that is right in the usual call only: the twin is the same case, called in another way.
    Both functions are given the twin."""

    stale: Callable[[Case], str]
    """The message if the kernel gave the answer of earlier calls."""
    wrong: Callable[[Case], str] | None = None
    """The message if the answer is wrong otherwise, or missing. None for no message: the twin has other values than the
    case, which the kernel may get wrong in the usual call, too."""


@dataclass(frozen=True)
class Law:
    """A property that is checked without an oracle. Its functions are pure: one case and stream always give the same
    twin.

    Rows with NaN or infinity take part in every law: what a row becomes depends on that row's values alone, so its NaNs
    and signed zeros must follow the law as well. Only the payload and the sign of a NaN are free.
    """

    name: str
    summary: str
    """The change that must not change a bit, in plain words."""
    fits: Callable[[Case], bool]
    """Whether the law applies to a case: it says something and holds for every correct kernel. It need not consider
    tensors that share memory in part."""
    twin: Callable[[Case, Stream], Case]
    """Makes the twin, which is the changed case, of a case to which the law applies."""
    expected: Callable[[Case, Stream, Outputs], Outputs] = unchanged
    """Makes the twin's expected outputs from those of the case. An output that is left out may be anything."""
    leeway: Callable[[Case, Stream, Outputs], Leeway] = lambda case, stream, outputs: STRICT
    """Says which differences from these outputs are allowed."""
    tickets: int = 1
    """The law's weight when one is drawn for a case: a law that fits few cases has more tickets, so that it is checked
    about as often as the others."""
    rearranges: bool = False
    """Whether the twin's expected outputs are elements of the case's, at other places."""
    told: Callable[[Case, Stream], str] | None = None
    """Says what was changed about this case; None for `summary`."""
    probe: Probe | None = None
    """For laws whose twins are judged by the oracle, not by the bits of their cases: the messages."""
    moves_one: bool = True
    """Whether its twins may move or change one tensor alone: such a law is not tried if tensors share memory in
    part."""
    suits: Callable[[Op], bool] = lambda op: True
    """Whether the law applies to an op at all. If not, it applies to no case of the op."""

    def applies(self, case: Case) -> bool:
        """Whether a twin of the case says something of correct kernels."""
        return self.suits(OPS[case.op]) and (case.apart or not self.moves_one) and self.fits(case)


@dataclass(frozen=True)
class LawCheck:
    """One law with the key of its stream: applied to a case it always gives the same twin and expectation."""

    law: Law
    key: int

    @property
    def name(self) -> str:
        return self.law.name

    def twin(self, case: Case) -> Case:
        """Return the case whose outputs follow from those of `case`."""
        return self.law.twin(case, self._stream)

    def expected(self, case: Case, outputs: Outputs) -> Outputs:
        """Return what the twin's outputs must be, given those of `case`."""
        return self.law.expected(case, self._stream, outputs)

    def leeway(self, case: Case, outputs: Outputs) -> Leeway:
        """Return which differences the twin's outputs may have, given those of `case`."""
        return self.law.leeway(case, self._stream, outputs)

    def seal(self, case: Case) -> str:
        """Return a digest of the law, the key and the twin. It differs if a file was altered, and if a later version's
        law would make another twin: replaying that would judge something that was never seen."""
        return hashlib.sha256(f"{self.name}/{self.key}/{self.twin(case).digest}".encode()).hexdigest()

    def told(self, case: Case) -> str:
        """Return what the twin changes about the case, in plain words."""
        return self.law.told(case, self._stream) if self.law.told is not None else self.law.summary

    @property
    def _stream(self) -> Stream:
        return Stream(self.key).child(self.name)


@dataclass(frozen=True)
class Difference:
    """The first difference between an output and what a law asks for."""

    output: str
    index: tuple[int, ...]
    """The index of the first differing element of the twin."""
    expected: str
    got: str
    """What is expected and what came, as values and bits."""
    count: int
    size: int

    def __str__(self) -> str:
        index = ", ".join(str(i) for i in self.index)
        elements = counted(self.size, f"element of {self.output} differs", f"elements of {self.output} differ")
        return (
            f"{self.count} of {elements}, first {self.output}[{index}] of the twin: "
            f"got {self.got}, expected {self.expected} from the case itself"
        )


def first_difference(
    outputs: Mapping[str, Output], expected: Outputs, got: Outputs, leeway: Leeway = STRICT
) -> Difference | None:
    """Return the first difference from what is expected, or None. A NaN equals any NaN: its payload and sign come from
    the hardware, not from the kernel. Everything else is compared bit for bit, within the leeway: without any, a zero
    does not equal a zero of the other sign."""
    for name, output in outputs.items():
        if name not in expected or expected[name] == got[name]:
            continue
        wanted = from_bits(expected[name], output.dtype, output.layout.shape)
        found = from_bits(got[name], output.dtype, output.layout.shape)
        differing = (_words(wanted) != _words(found)) & ~(_is_nan(wanted) & _is_nan(found))
        if leeway.zeros:
            differing &= ~(_is_zero(wanted) & _is_zero(found))
        if name in leeway.elements:
            differing &= ~leeway.elements[name].reshape(differing.shape)
        count = int(differing.sum())
        if count:
            index = tuple(int(i) for i in np.unravel_index(int(differing.argmax()), differing.shape))
            return Difference(name, index, _shown(wanted, index), _shown(found, index), count, math.prod(found.shape))
    return None


def _words(values: NDArray[np.generic]) -> NDArray[np.unsignedinteger]:
    return values.view(f"<u{values.dtype.itemsize}")


def _is_nan(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN, and no reason for a warning
        return np.isnan(values.astype(np.float64))


def _is_zero(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    words = _words(values)
    zeros: NDArray[np.bool_] = words << words.dtype.type(1) == 0  # all but the sign
    return zeros


def _shown(values: NDArray[np.generic], index: tuple[int, ...]) -> str:
    """Return an element such as '0.5 (0x3f000000)'."""
    digits = 2 * values.dtype.itemsize
    return f"{float(values[index])!r} (0x{int(_words(values)[index]):0{digits}x})"
