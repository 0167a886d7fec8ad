"""The judge: one case, many targets, one truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fuzz.base.case import Case
from fuzz.base.outcome import Outcome, Status
from fuzz.base.verdict import Verdict
from fuzz.judge.judgement import Judgement
from fuzz.judge.values import Asked, Bits, Checks, values_of
from fuzz.judge.words import damage_words, fault_words, unwritten_words
from oracles.numerics import Numerics

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


class Judge:
    """Judges all targets of one case."""

    def __init__(self, case: Case, contracts: Iterable[Numerics] = ()) -> None:
        """`contracts`: those of the targets that will be judged, as far as they are known beforehand."""
        self.case = case
        self.checks = Checks(values_of(case), contracts)

    def judge(self, outcome: Outcome, numerics: Numerics) -> Judgement:
        """The verdict on one target's outcome under the contract that it declared."""
        verdict, reason = self._apart_from_values(outcome)
        if verdict is not None:
            return Judgement(outcome.target, self.case.digest, verdict, reason=reason, outcome=outcome)
        worst = self.checks.worst((numerics, self._bits(outcome)))
        verdict = _BY_CHECK[worst.result]
        kept = outcome if verdict is not Verdict.PASS else None
        return Judgement(outcome.target, self.case.digest, verdict, worst.worst_ratio, worst, outcome=kept)

    def asked(self, outcome: Outcome, numerics: Numerics) -> Asked | None:
        """What `judge` will ask the oracle; None where no value is compared."""
        return (numerics, self._bits(outcome)) if self._apart_from_values(outcome)[0] is None else None

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

    def _bits(self, outcome: Outcome) -> Bits:
        return tuple(outcome.outputs[name] for name in self.case.outputs)
