"""The outline as plain text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from fuzz.report.outline import Outline


def text(outline: Outline) -> str:
    """Everything that failed, in full, then one line per target."""
    return "\n".join(_lines(outline)) + "\n"


def _lines(outline: Outline) -> Iterator[str]:
    yield f"kernelfuzz {outline.verb}: {'passed' if outline.ok else 'FAILED'}"
    yield f"{outline.judged:,} judged runs of {outline.cases:,} cases, seed {outline.seed}"
    yield from outline.complaints
    yield from outline.notes
    for problem in outline.problems:
        yield ""
        yield problem.headline + (f"; known: {problem.known}" if problem.known else "")
        yield problem.text
    yield ""
    for line in outline.targets:
        worst = ", ".join(f"{worst.ratio:.3f} {dtype}" for dtype, worst in line.worst.items())
        what = f"NOT_RUN: {line.not_run}" if line.not_run else f"{line.judged:,} runs, worst err/budget {worst or '-'}"
        yield f"{line.target}: {line.findings} findings, {what}"


def as_json(outline: Outline) -> str:
    """One object: what the other formats are made of."""
    record: dict[str, Any] = {
        "kernelfuzz report": 1,
        "verb": outline.verb,
        "ok": outline.ok,
        "seed": outline.seed,
        "environment": dict(outline.environment),
        "cases": outline.cases,
        "judged": outline.judged,
        "complaints": list(outline.complaints),
        "notes": list(outline.notes),
        "problems": [
            {**asdict(problem), "verdict": problem.verdict.value, "fingerprint": problem.fingerprint}
            for problem in outline.problems
        ],
        "targets": [asdict(line) for line in outline.targets],
    }
    return json.dumps(record, indent=1) + "\n"
