"""What a standalone program runs: one call or several, and how the outputs of the last one are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fuzz.adapters.target import Target
from fuzz.base.case import ITEMSIZE, Case, CaseError
from fuzz.base.errors import UsageError
from fuzz.base.verdict import Verdict
from fuzz.judge.judge import Judgement
from fuzz.laws.law import LawCheck, unchanged
from fuzz.report.script.expectation import Allowed, expectations

_ROW_LAWS = ("row_permutation", "batch_subset", "batch_append")
"""laws by which the twin's elements are some of the case's."""


class ScriptError(UsageError):
    """No program can show this failure. The message says what does."""


@dataclass(frozen=True)
class Calls:
    """The calls in order; the last one is judged."""

    cases: tuple[Case, ...]
    allowed: Mapping[str, list[Allowed]]
    """by output of the last call."""
    invalid: str = ""
    """why the last call must be rejected, where it must."""
    law: LawCheck | None = None
    """by which the last call is the twin of the one before it."""
    origins: Mapping[str, list[int]] = field(default_factory=dict)
    """for a law that picks rows: by output, which element of the case each of the twin's must equal."""

    @property
    def last(self) -> Case:
        return self.cases[-1]


def calls_of(
    target: Target, case: Case, judgement: Judgement | None, law: LawCheck | None, history: tuple[Case, ...]
) -> Calls:
    """What shows a finding. Raises ScriptError where a program cannot."""
    cases = (*history, case)
    if any(each.reaches_far for each in cases):
        raise ScriptError("--script: a tensor larger than memory needs the worker's sparse mapping: use repro itself")
    if not target.kernel.shares_memory and not all(each.apart for each in cases):
        raise ScriptError("--script: tensors that share memory in part are shown by a C kernel only: choose its target")
    broken = law if judgement is None or judgement.verdict is Verdict.FAIL_LAW else None
    if broken is not None:
        return _by_law(cases, broken)
    invalid = target.kernel.capability.refusal(case)
    allowed = {} if invalid else expectations(case, target.numerics, judgement)
    return Calls(cases, allowed, invalid or "")


def _by_law(cases: tuple[Case, ...], law: LawCheck) -> Calls:
    case = cases[-1]
    twin = law.twin(case)
    origins: dict[str, list[int]] = {}
    if law.name in _ROW_LAWS:
        origins = {name: _origins(case, name, law) for name in case.outputs}
    elif law.law.expected is not unchanged:
        raise ScriptError(
            f"--script: what {law.name} expects of the twin is not written as a program: use repro itself"
        )
    return Calls((*cases, twin), {}, law=law, origins=origins)


def _origins(case: Case, name: str, law: LawCheck) -> list[int]:
    """Found by giving the law numbered elements for outputs, low and high halves of the numbers by themselves."""
    size = case.outputs[name].layout.size
    word = f"<u{ITEMSIZE[case.outputs[name].dtype]}"
    halves = []
    for numbers in (np.arange(size) % 256, np.arange(size) // 256):
        if size > 256**2:
            raise CaseError("--script: too many elements to follow rows through a law")
        outputs = {
            other: np.zeros(output.layout.size, f"<u{ITEMSIZE[output.dtype]}").tobytes()
            for other, output in case.outputs.items()
        }
        outputs[name] = numbers.astype(word).tobytes()
        halves.append(np.frombuffer(law.expected(case, outputs)[name], word).astype(np.int64))
    picked: list[int] = (halves[0] + 256 * halves[1]).tolist()
    return picked
