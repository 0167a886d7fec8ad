"""Judging cases and their twins: a twin like any case, and then against the law that it is a twin by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fuzz.adapters.target import Target
from fuzz.base.capability import refusal
from fuzz.base.case import Case
from fuzz.base.kernel import Kernel
from fuzz.base.outcome import Outcome, Status
from fuzz.base.verdict import Verdict
from fuzz.judge.judge import Judge
from fuzz.judge.judgement import Judgement
from fuzz.judge.values import Asked
from fuzz.laws.comparison import first_difference
from fuzz.laws.law import LawCheck
from fuzz.laws.registry import Entry
from oracles.numerics import Numerics


class EntryJudge:
    """Judges all targets of one entry; `before` is the judge of the entry before it, which a twin's case is."""

    def __init__(
        self,
        entry: Entry,
        outcomes: Mapping[str, Outcome],
        before: EntryJudge | None = None,
        contracts: Iterable[Numerics] = (),
    ) -> None:
        self.entry = entry
        self.outcomes = outcomes
        self.checked: list[str] = []
        """targets on which the law was compared."""
        self._refusals: dict[str, str | None] = {}
        self._before = before if entry.check is not None else None
        # A second run of the same case needs no second truth.
        shared = self._before is not None and self._before.entry.case.digest == entry.case.digest
        self._judge: Judge = (
            self._before._judge if self._before is not None and shared else Judge(entry.case, contracts)
        )
        self.checks = self._judge.checks

    def judge(self, target: Target) -> Judgement:
        """The verdict on one target. A law is compared only where case and twin pass on their own: what is wrong by the
        oracle needs no second reason."""
        outcome, invalid = self.outcomes[target.id], self._refusal(target.kernel)
        if invalid is not None:
            return self._judge.judge_invalid(outcome, invalid)
        judgement = self._judge.judge(outcome, target.numerics)
        check, before = self.entry.check, self._before
        if check is None or before is None:
            return judgement
        judgement = replace(judgement, law=check)
        if check.name not in target.kernel.laws or target.id not in before.outcomes:
            return judgement
        if before.outcomes[target.id].status is not Status.RAN:  # the twin of invalid input may be valid
            return judgement
        passed = (judgement.verdict, before.judge(target).verdict)
        return self._by_law(judgement, check, before) if passed == (Verdict.PASS, Verdict.PASS) else judgement

    def asked(self, targets: Iterable[Target]) -> list[Asked]:
        """What judging these targets will ask the oracle."""
        every = [
            self._judge.asked(self.outcomes[target.id], target.numerics)
            for target in targets
            if self._refusal(target.kernel) is None
        ]
        return list(dict.fromkeys(asked for asked in every if asked is not None))

    def _refusal(self, kernel: Kernel) -> str | None:
        """Why the case is invalid for that kernel; asked once for all of its targets."""
        if kernel.name not in self._refusals:
            self._refusals[kernel.name] = refusal(kernel, self.entry.case)
        return self._refusals[kernel.name]

    def evidence(self, judgement: Judgement) -> Case:
        """The case to show and to keep: where a law is broken, the one that the twin was made of."""
        broken = judgement.verdict is Verdict.FAIL_LAW and self._before is not None
        return self._before.entry.case if self._before is not None and broken else self.entry.case

    def _by_law(self, judgement: Judgement, check: LawCheck, before: EntryJudge) -> Judgement:
        self.checked.append(judgement.target)
        case, name = before.entry.case, judgement.target
        known = before.outcomes[name].outputs
        expected, leeway = check.expected(case, known), check.leeway(case, known)
        difference = first_difference(self.entry.case.outputs, expected, self.outcomes[name].outputs, leeway)
        if difference is None:
            return judgement
        reason = f"{check.name} ({check.law.summary}): {difference}"
        return Judgement(name, case.digest, Verdict.FAIL_LAW, reason=reason, law=check)
