"""Families: ways of failing. A family is a set of verdicts and, for a broken law, the law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.law import LawCheck

CLEAR = 2.0
"""The err/budget from which on a failure is no boundary case."""

_FAMILIES: Mapping[Verdict, str] = {
    Verdict.FAIL_NUMERIC: "values",
    Verdict.FAIL_NONFINITE: "values",
    # In memory of its own an unwritten element keeps its poison; in place it keeps the input's value, and looks wrong.
    Verdict.FAIL_UNWRITTEN: "values",
    Verdict.FAIL_LAW: "law",
    Verdict.FAIL_MEMORY: "memory",
    Verdict.FAIL_INPUT_MODIFIED: "input modified",
    Verdict.FAIL_SHAPE: "shape",
    Verdict.FAIL_DTYPE: "dtype",
    Verdict.FAIL_ACCEPTED_INVALID: "accepted invalid",
    Verdict.FAIL_PROCESS: "process",
    Verdict.CRASH: "crash",
    Verdict.TIMEOUT: "timeout",
    Verdict.REJECTED: "rejected",
}

_EXCEPTION = "exception"
"""The family of exceptions. Raising is another failure than returning wrong values."""
_CHANCE = frozenset({"values", "memory", "crash"})
_INVALID = frozenset({"accepted invalid", "memory", "crash"})
"""The families that accepting invalid input may show as: the kernel may then read or write anywhere."""


@dataclass(frozen=True)
class Family:
    """One way of failing. Verdicts that one bug may show as belong to one family."""

    name: str
    law: LawCheck | None = None
    wide: bool = False
    """Whether wrong values, stray accesses and crashes count as one way of failing: which of them a wrong index causes
    is chance."""
    clear: float = 0.0
    """The least err/budget of a failure by wrong values."""

    @classmethod
    def of(cls, judgement: Judgement) -> Family:
        """Return the family of a finding. If it fails clearly, only clear failures belong to the family."""
        numeric = judgement.verdict is Verdict.FAIL_NUMERIC
        return cls(_name(judgement), judgement.broken_law, clear=min(CLEAR, judgement.ratio) if numeric else 0.0)

    @property
    def key(self) -> str:
        """The name under which failures of one cause are collected, such as 'values' or 'law rerun'."""
        if self.law is not None:
            return f"{self.name} {self.law.name}"
        return "values" if self.name in _CHANCE else self.name

    def holds(self, judgement: Judgement) -> bool:
        """Return whether the judgement is a failure of this family that is clear enough."""
        name = _name(judgement)
        if name != self.name and not (self.wide and self._may_show_as(name)):
            return False
        if self.law is not None:
            return judgement.law is not None and judgement.law.name == self.law.name
        return judgement.verdict is not Verdict.FAIL_NUMERIC or judgement.ratio >= self.clear

    def _may_show_as(self, name: str) -> bool:
        """Return whether a failure of this family may by chance show as one of that name."""
        return {name, self.name} <= (_CHANCE if self.name in _CHANCE else _INVALID)


def _name(judgement: Judgement) -> str:
    """Return the name of a failure's family; '' for no failure."""
    return _EXCEPTION if judgement.raised else _FAMILIES.get(judgement.verdict, "")
