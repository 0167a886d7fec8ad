"""Families: what counts as failing in the same way, a family of verdicts and, for a broken law, the law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.law import LawCheck

CLEAR = 2.0
"""A failure with at least this err/budget is no boundary case."""

_FAMILIES: Mapping[Verdict, str] = {
    Verdict.FAIL_NUMERIC: "values",
    Verdict.FAIL_NONFINITE: "values",
    # An element that is left out keeps its poison if the output has memory of its own; in place it keeps a value.
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
"""What a kernel raises is always the same: another failure than the values that it writes if it raises nothing."""
_CHANCE = frozenset({"values", "memory", "crash"})
_INVALID = frozenset({"accepted invalid", "memory", "crash"})
"""A kernel that accepts what it cannot take may read or write anywhere."""


@dataclass(frozen=True)
class Family:
    """One way of failing. One bug may show as several verdicts, so verdicts that one cause mixes are one family."""

    name: str
    law: LawCheck | None = None
    wide: bool = False
    """Whether wrong values, stray accesses and crashes are one way of failing: which one a wrong index shows is
    chance."""
    clear: float = 0.0
    """The least err/budget of a failure by values."""

    @classmethod
    def of(cls, judgement: Judgement) -> Family:
        """Return the family of a finding. Cases that fail clearly stay with cases that fail clearly."""
        numeric = judgement.verdict is Verdict.FAIL_NUMERIC
        return cls(_name(judgement), judgement.broken_law, clear=min(CLEAR, judgement.ratio) if numeric else 0.0)

    @property
    def key(self) -> str:
        """What failures of one cause may have in common: 'values', 'law rerun'."""
        if self.law is not None:
            return f"{self.name} {self.law.name}"
        return "values" if self.name in _CHANCE else self.name

    def holds(self, judgement: Judgement) -> bool:
        """Return whether the judgement is a failure of this family, and a clear one."""
        name = _name(judgement)
        if name != self.name and not (self.wide and self._may_show_as(name)):
            return False
        if self.law is not None:
            return judgement.law is not None and judgement.law.name == self.law.name
        return judgement.verdict is not Verdict.FAIL_NUMERIC or judgement.ratio >= self.clear

    def _may_show_as(self, name: str) -> bool:
        """Return whether chance decides that it is not a failure of that name."""
        return {name, self.name} <= (_CHANCE if self.name in _CHANCE else _INVALID)


def _name(judgement: Judgement) -> str:
    """Return the name of a failure; '' for no failure."""
    return _EXCEPTION if judgement.raised else _FAMILIES.get(judgement.verdict, "")
