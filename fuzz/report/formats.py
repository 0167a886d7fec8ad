"""The report formats by name, and the file that each is written to. This module makes plain text and JSON itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fuzz.core.base.errors import UsageError
from fuzz.core.base.files import unwritable
from fuzz.core.base.text import counted
from fuzz.findings.codec import encoded
from fuzz.report import github
from fuzz.report.github import comment
from fuzz.report.junit import junit
from fuzz.report.outline import Failure, Outline
from fuzz.report.sarif import sarif
from fuzz.report.totals import not_judged, remarks


def text(outline: Outline) -> str:
    """Return the report as text: every failure in full, then one line for each target."""
    return "\n".join(_lines(outline)) + "\n"


def _lines(outline: Outline) -> Iterator[str]:
    yield f"kernelfuzz {outline.verb}: {outline.outcome.ending}"
    yield f"{counted(outline.judged, 'judged run')} of {counted(outline.cases, 'case')}, seed {outline.seed}"
    yield from remarks(outline.outcome)
    yield from not_judged(outline.outcome)
    yield from outline.notes
    for failure in outline.failures:
        yield ""
        yield from [f"known failure, {failure.known}:"] if failure.known else []
        yield failure.told(verbose=True)
    yield ""
    for line in outline.targets:
        what = (
            line.ratios
            if line.not_run
            else f"{counted(line.judged, 'run')}, worst passing err/budget {line.ratios or '-'}"
        )
        yield f"{line.target}: {counted(line.findings, 'finding')}, {what}"


def as_json(outline: Outline) -> str:
    """Return the report as one JSON object with everything that the other formats show."""
    record: dict[str, Any] = {
        "kernelfuzz report": 1,
        "verb": outline.verb,
        **outline.outcome.record,
        "seed": outline.seed,
        "environment": dict(outline.environment),
        "cases": outline.cases,
        "judged": outline.judged,
        "complaints": remarks(outline.outcome),
        "better": list(outline.better),
        "notes": list(outline.notes),
        "problems": [_problem(failure) for failure in outline.failures],
        "targets": [asdict(line) for line in outline.targets],
    }
    return json.dumps(record, indent=1) + "\n"


def _problem(failure: Failure) -> dict[str, Any]:
    """Return a failure as data. Lines of text are included only for a broken kernel."""
    told = encoded(failure.explanation) if failure.explanation is not None else None
    return {
        "kernel": failure.kernel,
        "verdict": failure.verdict.value,
        "law": failure.law,
        "targets": list(failure.targets),
        "count": failure.count,
        "location": asdict(failure.location),
        "headline": failure.headline,
        "fingerprint": failure.fingerprint,
        "known": failure.known,
        "broken": failure.said if failure.broken else "",
        "commands": asdict(failure.commands),
        "explanation": told,
    }


FORMATS: Mapping[str, Callable[[Outline], str]] = {
    "text": text,
    "json": as_json,
    "junit": junit,
    "sarif": sarif,
    "github": github.summary,
    "comment": comment,
}


@dataclass(frozen=True)
class ReportRequest:
    """A report that the user asked for."""

    format: str
    path: Path | None
    """The file; None for standard output or, with 'github', for the file that $GITHUB_STEP_SUMMARY names."""


class FormatError(UsageError):
    """A --report option cannot be understood."""


def parse(options: Sequence[str]) -> tuple[ReportRequest, ...]:
    """Return the reports for options 'FORMAT' and 'FORMAT=FILE'. Files that an earlier use left are removed, since they
    would seem to speak for a use that ends without a report. Raises FormatError, also if a file cannot be written."""
    wanted = []
    for option in options:
        name, _, path = option.partition("=")
        if name not in FORMATS:
            raise FormatError(f"--report {option}: write FORMAT=FILE; the formats are {', '.join(FORMATS)}")
        file = Path(path) if path and path != "-" else None
        obstacle = unwritable(file.parent) if file is not None else None
        if obstacle is not None:
            raise FormatError(f"--report {option}: {obstacle} cannot be written")
        wanted.append(ReportRequest(name, file))
    for each in wanted:
        if each.path is not None and each.path.is_file() and each.format != "github":
            each.path.unlink()
    return tuple(wanted)


def write_reports(outline: Outline, wanted: Sequence[ReportRequest]) -> Outline:
    """Write all reports, and return the outline with lines about those that could not be written. If there are any, the
    other reports are written again, so that no report says that a failed use has passed."""
    # Standard output and 'github' come last, since their output cannot be taken back.
    for each in sorted(wanted, key=lambda one: one.path is None or one.format == "github"):
        try:
            _write(outline, each)
        except OSError as error:
            line = f"{error.filename or each.path or 'standard output'}: cannot be written: {error.strerror}"
            return write_reports(outline.but_unsaved([line]), [other for other in wanted if other is not each])
    return outline


def _write(outline: Outline, wanted: ReportRequest) -> None:
    content = FORMATS[wanted.format](outline)
    if wanted.format == "github":
        # Annotations must be on standard output, where GitHub's runner reads them.
        print("\n".join(github.commands(outline)))
        summary = wanted.path or os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            _append(Path(summary), content)
    elif wanted.path is None:
        sys.stdout.write(content)
    else:
        wanted.path.parent.mkdir(parents=True, exist_ok=True)
        wanted.path.write_text(content, encoding="utf-8", errors="replace")


def _append(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(content)
