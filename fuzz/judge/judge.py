"""The judge: one case, many targets, one truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from fuzz.case import Case
from fuzz.generate.formats import from_bits
from fuzz.judge.judgement import Judgement
from fuzz.judge.words import damage_words, fault_words, unwritten_words
from fuzz.outcome import Outcome, Status
from fuzz.verdict import Verdict
from oracles.numerics import Numerics
from oracles.problem import Problem
from oracles.screen import Received
from oracles.truth import OutputCheck, Truth

_BY_CHECK: Mapping[str, Verdict] = {
    "pass": Verdict.PASS,
    "numeric": Verdict.FAIL_NUMERIC,
    "nonfinite": Verdict.FAIL_NONFINITE,
    "gave_up": Verdict.ORACLE_GAVE_UP,
}
_BY_STATUS: Mapping[Status, Verdict] = {
    Status.NOT_RUN: Verdict.NOT_RUN,
    Status.HUNG: Verdict.TIMEOUT,
    Status.DIED: Verdict.CRASH,
    Status.RAISED: Verdict.CRASH,
    Status.WRONG_SHAPE: Verdict.FAIL_SHAPE,
    Status.WRONG_DTYPE: Verdict.FAIL_DTYPE,
}
_SEVERITY = ("pass", "gave_up", "numeric", "nonfinite")


def problem_of(case: Case) -> Problem:
    """The oracle's view of a case: logical values, no layouts."""
    return Problem(
        op=case.op,
        params=case.params,
        inputs={name: from_bits(t.bits, t.dtype, t.layout.shape) for name, t in case.inputs.items()},
        outputs={name: output.dtype for name, output in case.outputs.items()},
        structured=case.structured,
        key=case.digest,
    )


class Judge:
    """Judges all targets of one case. Exact values are computed once, equal outputs of equal contracts judged once."""

    def __init__(self, case: Case, contracts: Iterable[Numerics] = ()) -> None:
        """`contracts`: those of the targets that will be judged, as far as they are known beforehand."""
        self.case = case
        self._contracts = contracts
        self._received: dict[tuple[bytes, ...], Received] = {}
        self._checked: dict[tuple[Numerics, tuple[bytes, ...]], OutputCheck] = {}

    @cached_property
    def truth(self) -> Truth:
        """Formed when a value is judged: of what is only ever rejected, the op may know none."""
        return Truth(problem_of(self.case), self._contracts)

    def judge(self, outcome: Outcome, numerics: Numerics) -> Judgement:
        """The verdict on one target's outcome under the contract that it declared."""
        verdict, reason = self._apart_from_values(outcome)
        if verdict is not None:
            return Judgement(outcome.target, self.case.digest, verdict, reason=reason, outcome=outcome)
        worst = self._worst_check(outcome, numerics)
        verdict = _BY_CHECK[worst.result]
        kept = outcome if verdict is not Verdict.PASS else None
        return Judgement(outcome.target, self.case.digest, verdict, worst.worst_ratio, worst, outcome=kept)

    def judge_invalid(self, outcome: Outcome, why: str) -> Judgement:
        """The verdict on a kernel that was given what it must reject, because of `why`."""
        verdict, reason = self._apart_from_values(outcome)
        if outcome.status is Status.REJECTED and not outcome.damage:
            verdict, reason = Verdict.PASS, f"rejected, as it must ({why})"
        elif outcome.status is Status.RAN:
            verdict, reason = Verdict.FAIL_ACCEPTED_INVALID, f"returned KF_OK for what it must reject ({why})"
        assert verdict is not None, "only RAN leaves the verdict to the values"
        kept = outcome if verdict is not Verdict.PASS else None
        return Judgement(outcome.target, self.case.digest, verdict, reason=reason, outcome=kept)

    def _apart_from_values(self, outcome: Outcome) -> tuple[Verdict | None, str]:
        """The verdict where no value needs to be compared, worst first."""
        if outcome.status in _BY_STATUS:
            return _BY_STATUS[outcome.status], outcome.detail
        if outcome.status is Status.REJECTED and not outcome.damage:
            return Verdict.REJECTED, outcome.detail or "the kernel refused an input that it is declared to accept"
        if outcome.fault is not None:
            verdict = Verdict.FAIL_MEMORY if outcome.fault.tensor is not None else Verdict.CRASH
            return verdict, fault_words(outcome.fault)
        for damage in outcome.damage:
            verdict = Verdict.FAIL_INPUT_MODIFIED if damage.kind == "input" else Verdict.FAIL_MEMORY
            return verdict, damage_words(damage)
        for unwritten in outcome.unwritten:
            return Verdict.FAIL_UNWRITTEN, unwritten_words(unwritten, self.case.outputs[unwritten.output].layout.shape)
        return None, ""

    def _worst_check(self, outcome: Outcome, numerics: Numerics) -> OutputCheck:
        bits = tuple(outcome.outputs[name] for name in self.case.outputs)
        key = numerics, bits
        known = self._checked.get(key)
        if known is None:
            checks = self.truth.check(numerics, self._receive(outcome, bits))
            known = max(checks, key=lambda check: (_SEVERITY.index(check.result), check.worst_ratio))
            self._checked[key] = known
        return known

    def _receive(self, outcome: Outcome, bits: tuple[bytes, ...]) -> Received:
        if bits in self._received:
            return self._received[bits]
        received = self.truth.receive({
            name: from_bits(outcome.outputs[name], output.dtype, output.layout.shape)
            for name, output in self.case.outputs.items()
        })  # fmt: skip
        if self.truth.keeps:
            self._received[bits] = received
        return received
