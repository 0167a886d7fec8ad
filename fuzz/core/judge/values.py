"""The oracle of one case, which judges outputs under contracts."""

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
"""The outputs of one kernel, in the order of the case's outputs. Elements are in C order, little-endian."""
Query = tuple[Contract, Bits]
"""A contract, and the outputs of one kernel, to be judged by the contract."""
_SEVERITY: tuple[Result, ...] = ("pass", "gave_up", "numeric", "nonfinite")
"""Results, the least severe first. A kernel's result is that of its worst output."""


def problem_of(case: Case) -> Problem:
    """Return the problem that a case poses to the oracle: logical values, without layouts."""
    return Problem(
        op=case.op,
        params=case.params,
        inputs={name: numbers(each.bits, each.dtype, each.layout.shape) for name, each in case.inputs.items()},
        outputs={name: each.dtype for name, each in case.outputs.items()},
        structured=case.structured,
    )


def truth_of(case: Case, check: OutputCheck, outcome: Outcome) -> Truth:
    """Return the oracle by which `check` judged one output of a kernel that returned these outputs."""
    truth = Truth(problem_of(case))
    if not check.again:
        return truth
    return truth.again(
        {name: numbers(outcome.outputs[name], each.dtype, each.layout.shape) for name, each in case.outputs.items()}
    )


class CaseOracle:
    """Judges outputs of one case. Exact values are computed once, equal outputs of equal contracts judged once."""

    is_patient: bool = False
    """Whether a kernel is not blamed for taking too long for the case."""

    def __init__(self, case: Case, *, confirms: bool = True) -> None:
        """With `confirms`, the precise tier sometimes checks passes that the fast tier found."""
        self.case = case
        self._confirms = confirms
        self._received: dict[Bits, Received] = {}
        self.known: dict[Query, OutputCheck | OracleDisagreement] = {}
        """The results of earlier queries, made alone or in a batch, or the errors that they led to."""

    @lazy
    def truth(self) -> Truth:
        """Return the oracle, made when a value is first judged, since for a rejected case the op may have none."""
        return Truth(problem_of(self.case), confirms=self._confirms)

    def check(self, query: Query) -> OutputCheck:
        """Return the check of the output that decides about a kernel: the worst with the severest result."""
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
        """Return, for each output that has elements, whether a wrong value could have been seen."""
        return self.truth.decided(contract)

    def receive(self, bits: Bits) -> Received:
        """Return outputs as arrays. Equal small outputs are the same object."""
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
"""Functions that make an oracle for cases of an op without a formula, by the op's name."""


def oracle_of(case: Case, *, confirms: bool = True) -> CaseOracle:
    """Return the oracle of a case."""
    made = ORACLES.get(case.op)
    return CaseOracle(case, confirms=confirms) if made is None else made(case)
