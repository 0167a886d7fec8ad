"""The judge: it compares the outcomes of many targets for one case with one truth, and makes a judgement of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fuzz.core.adapters.target import Target
from fuzz.core.base import probe as probes
from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case
from fuzz.core.base.errors import InternalError
from fuzz.core.base.outcome import Change, Damage, Fault, Outcome, Status, Unwritten
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.values import Bits, Query, oracle_of
from fuzz.core.laws.law import Difference, LawCheck, Probe, first_difference
from fuzz.core.laws.registry import Entry
from oracles.escalation import MOST_S
from oracles.formula.contract import Contract
from oracles.summation import NumericsError
from oracles.truth import OutputCheck

_BY_CHECK: Mapping[str, Verdict] = {
    "pass": Verdict.PASS,
    "numeric": Verdict.FAIL_NUMERIC,
    "nonfinite": Verdict.FAIL_NONFINITE,
    "gave_up": Verdict.ORACLE_GAVE_UP,
}
_BY_STATUS: Mapping[Status, Verdict] = {
    Status.NOT_RUN: Verdict.NOT_RUN,
    Status.MISUSED: Verdict.NOT_RUN,
    Status.HUNG: Verdict.TIMEOUT,
    Status.DIED: Verdict.CRASH,
    Status.RAISED: Verdict.CRASH,
    Status.REPORTED: Verdict.FAIL_MEMORY,
    Status.WRONG_SHAPE: Verdict.FAIL_SHAPE,
    Status.WRONG_DTYPE: Verdict.FAIL_DTYPE,
}

_ONLY_RIGHT = "only cases that pass are judged by probes, too"
_BY_CHANCE = 8
"""Outputs with at most this many distinct 16-bit words may be right by chance. Chosen."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on the outcome of `target` for one case."""

    target: str
    of: Case | str = field(repr=False)
    """The case, or its digest."""
    verdict: Verdict
    ratio: float = 0.0
    """The worst err/budget over all output elements, or 0 if none were compared."""
    worst: OutputCheck | None = None
    """The output that decides the verdict, if outputs were compared."""
    reason: str = ""
    """One line in plain words, for verdicts that no number explains."""
    law: LawCheck | None = None
    """The law by which the judged case is a twin. With FAIL_LAW it is the broken law."""
    is_ours: bool = False
    """Whether this is an internal error instead of a verdict."""
    raised: bool = False
    """Whether a crash is an exception that the kernel raised. Unlike a stray access, it does not depend on chance."""
    outcome: Outcome | None = field(default=None, repr=False)
    """The outcome, kept for findings only, since passing runs would hold every output in memory."""

    @property
    def case(self) -> str:
        """The digest of the case. It is only computed when needed, since passing runs do not need it."""
        return self.of if isinstance(self.of, str) else self.of.digest

    @property
    def is_misuse(self) -> bool:
        """Whether the kernel cannot be called as declared. This is no verdict, and the reason says what to write."""
        return self.outcome is not None and self.outcome.status is Status.MISUSED

    @property
    def broken_law(self) -> LawCheck | None:
        """The law that does not hold, for FAIL_LAW; else None."""
        return self.law if self.verdict is Verdict.FAIL_LAW else None

    @property
    def broken_law_name(self) -> str:
        """The name of the broken law; '' for any other verdict."""
        return self.broken_law.name if self.broken_law is not None else ""


class Judge:
    """Judges all targets of one case."""

    def __init__(self, case: Case, *, confirms: bool = True) -> None:
        """With `confirms`, passes found by the fast tier are sometimes checked by the precise tier, see `Truth`."""
        self.case = case
        self.oracle = oracle_of(case, confirms=confirms)

    def judge(self, outcome: Outcome, contract: Contract) -> Judgement:
        """Return the verdict on one target's outcome under the contract that it declared."""
        verdict, reason = self.apart_from_values(outcome)
        if verdict is not None:
            raised = outcome.status is Status.RAISED
            return Judgement(outcome.target, self.case, verdict, reason=reason, raised=raised, outcome=outcome)
        try:
            worst = self.oracle.check((contract, self.bits(outcome)))
        except NumericsError as error:
            reason = f"what its kernel declares contradicts the case: {error}"
            return Judgement(outcome.target, self.case, Verdict.NOT_RUN, reason=reason, outcome=outcome)
        verdict, ratio = _BY_CHECK[worst.result], worst.worst_ratio
        if verdict is Verdict.PASS and outcome.changes:
            verdict, reason = Verdict.FAIL_PROCESS, changes_text(outcome.changes)
        if worst.late:
            left = (
                f"{worst.late:,} of {counted(worst.escalated, 'element that takes', 'elements that take')} many digits"
            )
            reason = f"not decided in {MOST_S:g} s: {left}"
        shown = None if verdict is Verdict.FAIL_PROCESS else worst
        kept = outcome if verdict is not Verdict.PASS else None
        return Judgement(outcome.target, self.case, verdict, ratio, shown, reason, outcome=kept)

    def query(self, outcome: Outcome, contract: Contract) -> Query | None:
        """Return the query that `judge` will make to the oracle, or None if no value is compared."""
        if outcome.status is Status.OURS:
            return None
        return (contract, self.bits(outcome)) if self.apart_from_values(outcome)[0] is None else None

    def judge_invalid(self, outcome: Outcome, why: str) -> Judgement:
        """Return the verdict on a kernel that was given input which it must reject, for the reason `why`."""
        verdict, reason = self.apart_from_values(outcome)
        if outcome.status is Status.REJECTED and not outcome.damage:
            verdict, reason = Verdict.PASS, f"rejected, as it must ({why})"
            if outcome.changes:
                verdict, reason = Verdict.FAIL_PROCESS, changes_text(outcome.changes)
        elif outcome.status is Status.RAN:
            verdict, reason = Verdict.FAIL_ACCEPTED_INVALID, f"returned KF_OK for what it must reject ({why})"
        assert verdict is not None, "only RAN leaves the verdict to the values"
        kept = outcome if verdict is not Verdict.PASS else None
        return Judgement(outcome.target, self.case, verdict, reason=reason, outcome=kept)

    def apart_from_values(self, outcome: Outcome) -> tuple[Verdict | None, str]:
        """Return the verdict if no value needs to be compared, the worst one first, and the reason; else (None, "").
        Raise InternalError."""
        if outcome.status is Status.OURS:
            raise InternalError(f"{outcome.target}: {outcome.detail}")
        if outcome.status is Status.RAN and not outcome.damage and not outcome.unwritten and outcome.fault is None:
            return None, ""
        if outcome.status is Status.HUNG and self.oracle.is_patient:
            return Verdict.NOT_RUN, outcome.detail
        if outcome.status in _BY_STATUS:
            return _BY_STATUS[outcome.status], outcome.detail
        if outcome.status is Status.REJECTED and not outcome.damage:
            return Verdict.REJECTED, outcome.detail or "the kernel refused an input that it is declared to accept"
        if outcome.fault is not None:
            verdict = Verdict.FAIL_MEMORY if outcome.fault.tensor is not None else Verdict.CRASH
            return verdict, fault_text(outcome.fault)
        for damage in outcome.damage:
            verdict = Verdict.FAIL_INPUT_MODIFIED if damage.kind == "input" else Verdict.FAIL_MEMORY
            return verdict, damage_text(damage)
        for unwritten in outcome.unwritten:
            return Verdict.FAIL_UNWRITTEN, unwritten_text(unwritten, self.case.outputs[unwritten.output].layout.shape)
        return None, ""

    def bits(self, outcome: Outcome) -> Bits:
        """Return the outputs of a kernel that ran, in the order of the case's outputs."""
        return tuple(map(outcome.outputs.__getitem__, self.case.outputs))


class EntryJudge:
    """Judges all targets of one entry. `before` judges the entry before it, from whose case a twin is made."""

    def __init__(
        self,
        entry: Entry,
        outcomes: Mapping[str, Outcome],
        before: EntryJudge | None = None,
        *,
        confirms: bool = True,
    ) -> None:
        """With `confirms`, the precise tier sometimes checks passes that the fast tier found."""
        self.entry = entry
        self.outcomes = outcomes
        self.checked: list[str] = []
        """The targets on which the law was compared."""
        self._refusals: dict[Capability, str | None] = {}
        self._differences: dict[tuple[Bits, Bits], Difference | None] = {}
        """The results of the law, by the outputs of case and twin, since many targets have the same outputs."""
        self._before = before if entry.check is not None else None
        # a second run of the same case needs no second truth
        shared = self._before is not None and _are_same(
            probes.unprobed(self._before.entry.case), probes.unprobed(entry.case)
        )
        same = self._before._judge if self._before is not None and shared else None
        self._earlier: Judge | None = None
        """The judge of the call that a probe makes before the judged one."""
        # If nothing was computed, the comparison should fail, so no element is checked closely.
        is_ghost = probes.probe_of(entry.case) == probes.GHOST
        self._judge: Judge = same or Judge(entry.case, confirms=confirms and not is_ghost)
        self.oracle = self._judge.oracle

    def judge(self, target: Target) -> Judgement:
        """Return the verdict on one target. A law is compared only if case and twin pass on their own, since an output
        that the oracle calls wrong needs no second reason."""
        outcome, invalid = self.outcomes[target.id], self._refusal(target.kernel.capability)
        if invalid is not None:
            return self._judge.judge_invalid(outcome, invalid)
        judgement = self._judge.judge(outcome, target.contract)
        check, before = self.entry.check, self._before
        if check is None or before is None:
            return judgement
        judgement = replace(judgement, law=check)
        if check.name not in target.kernel.laws or target.id not in before.outcomes:
            return judgement
        if check.law.probe is not None:
            return self._by_probe(judgement, before.judge(target), target, check.law.probe)
        if before.outcomes[target.id].status is not Status.RAN:  # the twin of invalid input may be valid
            return judgement
        passed = (judgement.verdict, before.judge(target).verdict)
        return self._by_law(judgement, check, before) if passed == (Verdict.PASS, Verdict.PASS) else judgement

    def decided(self, target: Target) -> Mapping[str, bool]:
        """Return, for each compared output of a target, whether a wrong value could have been seen."""
        return self.oracle.decided(target.contract)

    def queries(self, targets: Iterable[Target]) -> list[Query]:
        """Return the queries that judging these targets will make to the oracle. Queries may repeat."""
        judged = [target for target in targets if self._refusal(target.kernel.capability) is None]
        found = [self._judge.query(self.outcomes[target.id], target.contract) for target in judged]
        return [query for query in found if query is not None]

    def _refusal(self, capability: Capability) -> str | None:
        """Return why kernels with this capability must reject the case, or None. It is computed once for all
        kernels."""
        if not capability.able.rejects:
            return None  # else they would not have been given the case
        if capability not in self._refusals:
            found = capability.invalid(self.entry.case)
            self._refusals[capability] = None if found is None else found.reason
        return self._refusals[capability]

    def evidence(self, judgement: Judgement) -> Case:
        """Return the case to show and to keep. If a law is broken, it is the case from which the twin was made."""
        broken = judgement.verdict is Verdict.FAIL_LAW and self._before is not None
        return self._before.entry.case if self._before is not None and broken else self.entry.case

    def _by_law(self, judgement: Judgement, check: LawCheck, before: EntryJudge) -> Judgement:
        self.checked.append(judgement.target)
        case, name = before.entry.case, judgement.target
        known, got = before.outcomes[name].outputs, self.outcomes[name].outputs
        key = before._judge.bits(before.outcomes[name]), self._judge.bits(self.outcomes[name])
        if key not in self._differences:
            expected, leeway = check.expected(case, known), check.leeway(case, known)
            self._differences[key] = first_difference(self.entry.case.outputs, expected, got, leeway)
        difference = self._differences[key]
        if difference is None:
            return judgement
        reason = f"{check.name} ({check.told(case)}): {difference}"
        return Judgement(name, case, Verdict.FAIL_LAW, reason=reason, law=check)

    def _by_probe(self, judgement: Judgement, usual: Judgement, target: Target, probe: Probe) -> Judgement:
        """Return the verdict on the twin of a law that is a probe: the same call made in another way, where `usual` is
        the judge of the call made as usual. If both calls fail, or if the twin times out, the way of the call is not to
        blame, since some ways make many calls. Raise InternalError."""
        case, outcome, law = self.entry.case, self.outcomes[target.id], judgement.law
        assert law is not None
        if probes.probe_of(case) == probes.GHOST:
            leaks = judgement.verdict is Verdict.PASS and _says_something(outcome)
            if leaks and not self._is_right_before(outcome, target):
                raise InternalError(f"{target.id}: {probe.stale(case)}")
            return Judgement(target.id, usual.of, Verdict.PASS, law=law)
        if judgement.verdict in (Verdict.NOT_RUN, Verdict.TIMEOUT):
            return Judgement(target.id, usual.of, Verdict.NOT_RUN, reason=judgement.reason, law=law)
        if usual.verdict is not Verdict.PASS:
            return Judgement(target.id, usual.of, Verdict.NOT_RUN, reason=_ONLY_RIGHT, law=law)
        if judgement.verdict is Verdict.ORACLE_GAVE_UP:
            return judgement
        self.checked.append(target.id)
        if judgement.verdict is Verdict.PASS:
            return judgement
        if self._is_stale(outcome, target):
            said = probe.stale(case)
        elif probe.wrong is not None:
            said = _with_detail(probe.wrong(case), judgement)
        else:
            return Judgement(target.id, usual.of, Verdict.NOT_RUN, reason="it is wrong about other values", law=law)
        return Judgement(target.id, usual.of, Verdict.FAIL_LAW, reason=said, law=law, outcome=outcome)

    def _is_right_before(self, outcome: Outcome, target: Target) -> bool:
        """Whether the outputs are right for the case from which this twin was made. Then the kernel may have returned
        what was still in memory."""
        assert self._before is not None
        return self._before._judge.judge(outcome, target.contract).verdict is Verdict.PASS

    def _is_stale(self, outcome: Outcome, target: Target) -> bool:
        """Return whether the outputs are right for the input of the earlier call. If the outputs of that call are
        known, both must be the same bits, as a wrong answer may also lie within the tolerance of the earlier values."""
        if outcome.status is not Status.RAN:
            return False
        earlier, known = probes.before(self.entry.case), self._before
        if known is not None and earlier.inputs == known.entry.case.inputs:
            return known.outcomes[target.id].outputs == outcome.outputs
        self._earlier = self._earlier or Judge(earlier)
        is_other = earlier != self.entry.case
        return is_other and self._earlier.judge(outcome, target.contract).verdict is Verdict.PASS


def _with_detail(said: str, judgement: Judgement) -> str:
    worst = judgement.worst
    if worst is None or worst.worst_index is None:
        return f"{said} ({judgement.reason})"
    return f"{said}, first or worst at {worst.output}[{', '.join(map(str, worst.worst_index))}]"


def _says_something(outcome: Outcome) -> bool:
    """Whether the outputs are so varied that they are hardly right by chance, unlike zeros or one repeated number."""
    halves = ({each[at : at + 2] for at in range(0, len(each), 2)} for each in outcome.outputs.values())
    return any(len(each) > _BY_CHANCE for each in halves)


def _are_same(one: Case, two: Case) -> bool:
    """Whether everything that a kernel sees is the same in two cases, as equal digests would show."""
    return (one.op, one.params, one.inputs, one.outputs, one.structured) == (
        two.op, two.params, two.inputs, two.outputs, two.structured,
    )  # fmt: skip


def fault_text(fault: Fault) -> str:
    """Return a sentence such as 'SIGSEGV: read right after the end of x, row 3, column 17'."""
    if fault.tensor is None and fault.signal == "SIGSEGV":
        return (
            "SIGSEGV in the kernel, at no tensor's address: a wild pointer, too large a stack, or (processors give no "
            "address for it) an aligned vector access at an unaligned address"
        )
    if fault.tensor is None:
        return f"{fault.signal} in the kernel, at no tensor's address"
    access = {"read": "read", "write": "wrote"}.get(fault.access or "", "touched memory")
    at = _at(fault.row, fault.column)
    if fault.byte is None:
        return f"{fault.signal}: {access} between the elements of {fault.tensor}, nearest{at}"
    return f"{fault.signal}: {access} {_place(fault.byte, fault.tensor)}{at}"


def damage_text(damage: Damage) -> str:
    """Return a sentence such as 'wrote 4 bytes outside y: right after the end of y, row 3, column 17'."""
    count = counted(damage.count, "byte")
    at = _at(damage.row, damage.column)
    if damage.kind == "input":
        return f"changed {count} of input {damage.tensor}, first at byte {damage.byte}{at}"
    if damage.kind == "output":
        return f"wrote {count} of output {damage.tensor} and then rejected the input, first at byte {damage.byte}{at}"
    if damage.where == "inside":
        return f"wrote {count} between the elements of {damage.tensor}, first at byte {damage.byte}{at}"
    return f"wrote {count} outside {damage.tensor}: {_place(damage.byte, damage.tensor)}{at}"


def unwritten_text(unwritten: Unwritten, shape: tuple[int, ...]) -> str:
    """Return a sentence about the elements that still hold their poison. A kernel may also read its output and add 0
    times it, which makes a NaN. So the sentence does not claim that the elements were never written."""
    first = []
    rest = unwritten.first
    for extent in reversed(shape):
        rest, position = divmod(rest, extent)
        first.append(position)
    index = ", ".join(str(i) for i in reversed(first))
    name = unwritten.output
    elements = counted(math.prod(shape), f"element of {name} holds", f"elements of {name} hold")
    return (
        f"{unwritten.count} of {elements} what their memory held before, "
        f"first {unwritten.output}[{index}]: never written, or made of that"
    )


def changes_text(changes: Iterable[Change]) -> str:
    """Return a sentence such as 'left its process changed: signals: another handler of SIGSEGV'."""
    return f"left its process changed: {'; '.join(map(str, changes))}"


def _place(byte: int, tensor: str) -> str:
    if byte < 0:
        return f"{-byte} bytes before the start of {tensor}"
    return f"right after the end of {tensor}" if byte == 0 else f"{byte} bytes after the end of {tensor}"


def _at(row: int | None, column: int | None) -> str:
    """Return words such as ', row 3, column 17' for the nearest element."""
    places = (("row", row), ("column", column))
    return "".join(f", {what} {index}" for what, index in places if index is not None)
