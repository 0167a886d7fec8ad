"""Values: what the oracle needs to know of a case, and the oracle of one case, which judges outputs by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from fuzz.base.case import Case
from fuzz.base.dtypes import from_bits
from oracles.formula.contract import Contract
from oracles.formula.tiers.joined import Received
from oracles.lazy import lazy
from oracles.problem import Problem
from oracles.truth import OracleDisagreement, OutputCheck, Result, Truth

Bits = tuple[bytes, ...]
"""The outputs of one kernel, in the order of the case's: logical elements in C order, little-endian."""
Query = tuple[Contract, Bits]
"""Outputs that are to be judged, and the contract to judge them by."""
_SEVERITY: tuple[Result, ...] = ("pass", "gave_up", "numeric", "nonfinite")
"""Results by their severity, the least severe first: that of its worst output is said of a kernel."""


@dataclass(frozen=True)
class Form:
    """Dtype and logical shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    def array(self, bits: bytes) -> NDArray[Any]:
        """The logical array that these bits encode."""
        return from_bits(bits, self.dtype, self.shape)


_form = lru_cache(maxsize=4096)(Form)


@dataclass(frozen=True)
class Values:
    """The oracle's view of a case: logical values, no layouts."""

    op: str
    params: Mapping[str, float | int]
    inputs: Mapping[str, tuple[Form, bytes]]
    outputs: Mapping[str, Form]
    structured: bool
    digest: str = ""
    """What its sender calls it by, in a message to the oracle's process."""

    @lazy
    def problem(self) -> Problem:
        """The same for the oracle."""
        return Problem(
            op=self.op,
            params=self.params,
            inputs={name: form.array(bits) for name, (form, bits) in self.inputs.items()},
            outputs={name: form.dtype for name, form in self.outputs.items()},
            structured=self.structured,
        )


def values_of(case: Case) -> Values:
    """What the oracle needs to know of a case."""
    return Values(
        case.op,
        case.params,
        {name: (_form(tensor.dtype, tensor.layout.shape), tensor.bits) for name, tensor in case.inputs.items()},
        {name: _form(output.dtype, output.layout.shape) for name, output in case.outputs.items()},
        case.structured,
    )


def problem_of(case: Case) -> Problem:
    """A case for the oracle."""
    return values_of(case).problem


class CaseOracle:
    """Judges outputs of one case. Exact values are computed once, equal outputs of equal contracts judged once."""

    def __init__(self, values: Values, *, confirms: bool = True) -> None:
        self.values = values
        self._confirms = confirms
        self._received: dict[Bits, Received] = {}
        self.known: dict[Query, OutputCheck | OracleDisagreement] = {}
        """What was judged already, by itself or in a batch; or the error that came of it."""

    @lazy
    def truth(self) -> Truth:
        """Formed when a value is judged: of what is only ever rejected, the op may know none."""
        return Truth(self.values.problem, confirms=self._confirms)

    def check(self, query: Query) -> OutputCheck:
        """The output that decides about a kernel: the worst of those with the severest result."""
        found = self.known.get(query)
        if found is None:
            contract, bits = query
            checks = self.truth.check(contract, self.receive(bits))
            found = max(checks, key=lambda check: (_SEVERITY.index(check.result), check.worst_ratio))
            self.known[query] = found
        if isinstance(found, OracleDisagreement):
            raise found
        return found

    def receive(self, bits: Bits) -> Received:
        """Outputs as arrays. Equal ones are the same object, as long as they are small."""
        if (known := self._received.get(bits)) is not None:
            return known
        outputs = self.values.outputs.items()
        received = self.truth.receive(
            {name: form.array(each) for (name, form), each in zip(outputs, bits, strict=True)}
        )
        if self.truth.keeps:
            self._received[bits] = received
        return received
