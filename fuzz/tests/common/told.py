"""What is told of a failure: its records, which most tests compare, and its lines, for tests that ask about words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import fuzz
from fuzz.core.adapters.target import Target
from fuzz.core.base.exits import Exit
from fuzz.core.base.verdict import Verdict
from fuzz.explain.explanation import Explanation, SmallestCase
from fuzz.explain.facts import explanation_of, shared, stated
from fuzz.explain.finding import Finding
from fuzz.explain.stages.conclusion import Conclusion
from fuzz.findings.casefile import load
from fuzz.references.replay.oracle import ReplayFailure
from fuzz.report.failure import explanation_lines
from fuzz.report.use_outcome import UseOutcome

NOTHING = Explanation(
    "kernel", "op", "kernel.c", Verdict.FAIL_NUMERIC, "c-kernel@native",
    SmallestCase({}, {}, {}, "0" * 64, "normal", False), "0", explained="whole",
)  # fmt: skip
"""An explanation of which nothing is known."""
PASSED = UseOutcome({"mine": 20}, {})
OUTCOMES = {
    Exit.OK: PASSED,
    Exit.FINDINGS: replace(PASSED, failing=True),
    Exit.INTERRUPTED: replace(PASSED, interrupted=True),
    Exit.INTERNAL: replace(PASSED, errors=("the tiers of the oracle contradict each other",)),
    Exit.NOTHING_RAN: UseOutcome({}, {"mine": "cupy is not installed"}),
    Exit.MOSTLY_NOT_JUDGED: replace(PASSED, not_run=30, why_not_run="the run ended"),
    Exit.REQUIRED_NOT_RUN: replace(PASSED, missing=("required target x did not run",)),
    Exit.ORACLE_GAVE_UP: replace(PASSED, undecided=3),
}
"""A use that ends with each exit code."""


@contextmanager
def fails(kernel: str = "", *verdicts: Verdict) -> Iterator[pytest.ExceptionInfo[fuzz.CheckFailed]]:
    """A check in this block fails: the report begins with the kernel, where one is named, and each failure has one of
    the verdicts, which is that of wrong values where none is named."""
    with pytest.raises(fuzz.CheckFailed, match=f"^FAIL  {re.escape(kernel)}  " if kernel else None) as caught:
        yield caught
    found = {each.verdict for each in caught.value.failures}
    assert found, f"nothing failed: {caught.value}"
    assert found <= {*(verdicts or (Verdict.FAIL_NUMERIC,))}, caught.value


def counts_of(said: str) -> tuple[int, int]:
    """Return the judged runs and the cases that the last line of a search counts."""
    [found] = re.findall(r": ([\d,]+) judged runs? of ([\d,]+) cases?\b", said)
    runs, cases = (int(number.replace(",", "")) for number in found)
    return runs, cases


def contract_of(failure: Explanation | ReplayFailure) -> str:
    """Return the contract that the kernel is said to be right as, '' where that is none."""
    contract = failure.contract if isinstance(failure, Explanation) else None
    return contract.says if contract is not None and contract.telling else ""


def when(failure: Explanation) -> str:
    """Return the causes of the rule that says when it fails, '' without a rule."""
    return "; or ".join(str(each.cause) for each in failure.rule.alternatives) if failure.rule is not None else ""


def told_in(folder: Path) -> list[Explanation]:
    """Return the explanations of the case files of a folder, in the order of their names."""
    records = (load(path)[1] for path in sorted(folder.glob("*.json")))
    return [record.explanation for record in records if record is not None and record.explanation is not None]


def lines_of(finding: Finding, target: Target | None = None) -> list[str]:
    """Return the lines of the explanation, each as 'label: text'."""
    return _labelled(explanation_of(finding, target))


def concluded_lines(conclusion: Conclusion) -> list[str]:
    """Return the lines that say when it fails and where."""
    return _labelled(
        replace(
            NOTHING,
            law=conclusion.law,
            rule=stated(conclusion),
            shared=shared(conclusion),
            places=conclusion.places,
            suggestion=conclusion.suggestion,
        )
    )


def _labelled(told: Explanation) -> list[str]:
    lines = (re.match(r"  (.*?)  +(.*)", line) for line in explanation_lines(told))
    return [f"{line[1]}: {line[2]}" for line in lines if line is not None]
