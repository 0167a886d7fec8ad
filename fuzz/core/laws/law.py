"""A law: what may change about a case, and what the outputs of the changed case must be, bit for bit or nearly so."""

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
"""The elements of each output in C order, little-endian, by the output's name."""


@dataclass(frozen=True)
class Leeway:
    """The differences that a law allows."""

    zeros: bool = False
    """Whether zeros may have either sign."""
    elements: Mapping[str, Mask] = field(default_factory=dict)
    """The elements of the twin that may have any value, by output."""
    within: float = 0.0
    """How far from the expected value each element may be."""


STRICT = Leeway()


def has_elements(case: Case) -> bool:
    """Return whether all inputs have elements, so that laws can change something."""
    return all(tensor.layout.size > 0 for tensor in case.inputs.values())


def unchanged(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
    """Return the case's outputs, which most laws expect from the twin."""
    return outputs


@dataclass(frozen=True)
class Probe:
    """The messages about a kernel that is right in the usual call only. The twin is the same case, called in another
    way. Both functions are given the twin."""

    stale: Callable[[Case], str]
    """Returns the message for a kernel that gave the answer of earlier calls."""
    wrong: Callable[[Case], str] | None = None
    """Returns the message for an answer that is wrong in another way, or missing. None for no message: the twin's
    values differ from the case's, and the kernel may get them wrong in the usual call, too."""


@dataclass(frozen=True)
class Law:
    """A property that is checked without an oracle. Its functions are pure: the same case and stream always give the
    same twin.

    Rows with NaN or infinity take part in every law. The outputs of a row depend on the values of this row alone, so
    its NaNs and signed zeros must follow the law as well. Only the payload and the sign of a NaN are free.
    """

    name: str
    summary: str
    """The change that must not change a bit of the outputs, in plain words."""
    fits: Callable[[Case], bool]
    """Returns whether the law applies to a case: it tests something, and holds for every correct kernel. The function
    need not consider tensors that share memory in part."""
    twin: Callable[[Case, Stream], Case]
    """Returns the twin, which is the changed case, of a case to which the law applies."""
    expected: Callable[[Case, Stream, Outputs], Outputs] = unchanged
    """Returns the expected outputs of the twin, given those of the case. A missing output may have any value."""
    leeway: Callable[[Case, Stream, Outputs], Leeway] = lambda case, stream, outputs: STRICT
    """Returns the allowed differences from the expected outputs."""
    tickets: int = 1
    """The weight of the law in the draw of a law for a case. A law that fits few cases has more tickets, so that it is
    checked about as often as the others."""
    rearranges: bool = False
    """Whether the twin's expected outputs are elements of the case's outputs at other places."""
    told: Callable[[Case, Stream], str] | None = None
    """Returns what was changed about a case, in plain words; None to use `summary`."""
    probe: Probe | None = None
    """The messages of a law whose twins are judged by the oracle, and not by the bits of their cases; else None."""
    moves_one: bool = True
    """Whether twins may move or change one tensor alone. Such a law is not tried if tensors share memory in part."""
    suits: Callable[[Op], bool] = lambda op: True
    """Returns whether the law can apply to an op at all."""

    def applies(self, case: Case) -> bool:
        """Whether a twin of the case tests something that holds for correct kernels."""
        return self.suits(OPS[case.op]) and (case.apart or not self.moves_one) and self.fits(case)


@dataclass(frozen=True)
class LawCheck:
    """One law with the key of its stream. For one case, it always gives the same twin and expected outputs."""

    law: Law
    key: int

    @property
    def name(self) -> str:
        return self.law.name

    def twin(self, case: Case) -> Case:
        """Return the twin, whose outputs follow from those of `case`."""
        return self.law.twin(case, self._stream)

    def expected(self, case: Case, outputs: Outputs) -> Outputs:
        """Return the expected outputs of the twin, given those of `case`."""
        return self.law.expected(case, self._stream, outputs)

    def leeway(self, case: Case, outputs: Outputs) -> Leeway:
        """Return the differences that the twin's outputs may have, given those of `case`."""
        return self.law.leeway(case, self._stream, outputs)

    def seal(self, case: Case) -> str:
        """Return a digest of the law, the key and the twin. It changes if a file was altered, or if the law of a later
        version makes another twin. Running such a twin would judge something that was never seen."""
        return hashlib.sha256(f"{self.name}/{self.key}/{self.twin(case).digest}".encode()).hexdigest()

    def told(self, case: Case) -> str:
        """Return what the twin changes about the case, in plain words."""
        return self.law.told(case, self._stream) if self.law.told is not None else self.law.summary

    @property
    def _stream(self) -> Stream:
        return Stream(self.key).child(self.name)


@dataclass(frozen=True)
class Difference:
    """The first difference between an output and the output that a law expects."""

    output: str
    index: tuple[int, ...]
    """The index of the first differing element of the twin."""
    expected: str
    got: str
    """The expected and the actual element, as values and bits."""
    count: int
    size: int
    within: float = 0.0
    """How far apart the law allows them to be."""

    def __str__(self) -> str:
        index = ", ".join(str(i) for i in self.index)
        elements = counted(self.size, f"element of {self.output} differs", f"elements of {self.output} differ")
        by = f"within {self.within:.2g}" if self.within else "from the case itself"
        return (
            f"{self.count} of {elements}, first {self.output}[{index}] of the twin: "
            f"got {self.got}, expected {self.expected} {by}"
        )


def first_difference(
    outputs: Mapping[str, Output], expected: Outputs, got: Outputs, leeway: Leeway = STRICT
) -> Difference | None:
    """Return the first difference from the expected outputs, or None. A NaN equals any NaN, since its payload and sign
    come from the hardware, not from the kernel. Everything else is compared bit for bit, within the leeway. Without
    leeway, zeros of different signs differ."""
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
        if leeway.within:
            differing &= ~(np.abs(found.astype(np.float64) - wanted.astype(np.float64)) <= leeway.within)
        count = int(differing.sum())
        if count:
            index = tuple(int(i) for i in np.unravel_index(int(differing.argmax()), differing.shape))
            shown = _shown(wanted, index), _shown(found, index)
            return Difference(name, index, *shown, count, math.prod(found.shape), leeway.within)
    return None


def _words(values: NDArray[np.generic]) -> NDArray[np.unsignedinteger]:
    return values.view(f"<u{values.dtype.itemsize}")


def _is_nan(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # a signalling NaN would warn
        return np.isnan(values.astype(np.float64))


def _is_zero(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    words = _words(values)
    zeros: NDArray[np.bool_] = words << words.dtype.type(1) == 0  # all bits but the sign
    return zeros


def _shown(values: NDArray[np.generic], index: tuple[int, ...]) -> str:
    """Return an element such as '0.5 (0x3f000000)'."""
    digits = 2 * values.dtype.itemsize
    return f"{float(values[index])!r} (0x{int(_words(values)[index]):0{digits}x})"
