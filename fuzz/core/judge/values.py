"""The oracle of one case: it judges outputs under contracts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fuzz.core.base.case import Case
from fuzz.core.base.dtypes import numbers
from fuzz.core.base.outcome import Outcome
from oracles.formula.contract import Contract
from oracles.lazy import lazy
from oracles.problem import Problem
from oracles.tiers.joined import Received
from oracles.truth import OracleDisagreement, OutputCheck, Result, Truth

Bits = tuple[bytes, ...]
"""The outputs of one kernel, in the order of the case's outputs: elements in C order, little-endian."""
Query = tuple[Contract, Bits]
"""A contract, and outputs to be judged by it."""
_SEVERITY: tuple[Result, ...] = ("pass", "gave_up", "numeric", "nonfinite")
"""Results by severity, the least severe first: a kernel's result is that of its worst output."""


def problem_of(case: Case) -> Problem:
    """Return the case for the oracle: logical values, no layouts."""
    return Problem(
        op=case.op,
        params=case.params,
        inputs={name: numbers(each.bits, each.dtype, each.layout.shape) for name, each in case.inputs.items()},
        outputs={name: each.dtype for name, each in case.outputs.items()},
        structured=case.structured,
    )


def truth_of(case: Case, check: OutputCheck, outcome: Outcome) -> Truth:
    """Return the truth by which one output was judged, for a kernel that returned these outputs."""
    truth = Truth(problem_of(case))
    if not check.again:
        return truth
    return truth.again(
        {name: numbers(outcome.outputs[name], each.dtype, each.layout.shape) for name, each in case.outputs.items()}
    )


class CaseOracle:
    """Judges outputs of one case. Exact values are computed once, equal outputs of equal contracts judged once."""

    is_patient: bool = False
    """Whether a kernel that takes too long for the case is not judged by it."""

    def __init__(self, case: Case, *, confirms: bool = True) -> None:
        """`confirms`: see `Judge`."""
        self.case = case
        self._confirms = confirms
        self._received: dict[Bits, Received] = {}
        self.known: dict[Query, OutputCheck | OracleDisagreement] = {}
        """What was judged already, alone or in a batch; or the error that it led to."""

    @lazy
    def truth(self) -> Truth:
        """Return the truth, made when a value is first judged: for a case that is only ever rejected, the op may have
        none."""
        return Truth(problem_of(self.case), confirms=self._confirms)

    def check(self, query: Query) -> OutputCheck:
        """Return the output that decides about a kernel: the worst of those with the severest result."""
        found = self.known.get(query)
        if found is None:
            contract, bits = query
            checks = self.truth.check(contract, self.receive(bits))
            found = max(checks, key=lambda check: (_SEVERITY.index(check.result), check.worst_ratio))
            self.known[query] = found
        if isinstance(found, OracleDisagreement):
            raise found
        return found

    def decided(self, contract: Contract) -> Mapping[str, bool]:
        """Return whether a wrong value of it could have been seen, by each output that has elements."""
        return self.truth.decided(contract)

    def receive(self, bits: Bits) -> Received:
        """Return outputs as arrays. Small equal ones are the same object."""
        if (known := self._received.get(bits)) is not None:
            return known
        outputs = zip(self.case.outputs.items(), bits, strict=True)
        received = self.truth.receive(
            {name: numbers(each, output.dtype, output.layout.shape) for (name, output), each in outputs}
        )
        if self.truth.keeps:
            self._received[bits] = received
        return received


ORACLES: dict[str, Callable[[Case], CaseOracle]] = {}
"""What judges cases instead of a formula, by the name of an op that has none."""


def oracle_of(case: Case, *, confirms: bool = True) -> CaseOracle:
    """Return the oracle of a case."""
    made = ORACLES.get(case.op)
    return CaseOracle(case, confirms=confirms) if made is None else made(case)
