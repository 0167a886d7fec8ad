"""What is told of a finding, as the reports print it, for tests that ask about its words."""

from __future__ import annotations

import re
from dataclasses import replace

from fuzz.core.adapters.target import Target
from fuzz.core.base.exits import Exit
from fuzz.core.base.verdict import Verdict
from fuzz.explain.explanation import Explanation, SmallestCase
from fuzz.explain.facts import explanation_of, shared, stated
from fuzz.explain.finding import Finding
from fuzz.explain.stages.conclusion import Conclusion
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
