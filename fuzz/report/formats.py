"""The report formats by name, and the file that each is written to: text, JSON, JUnit XML with a suite for each kernel,
SARIF 2.1.0 with a result for each bucket, and those for GitHub."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from fuzz.core.base.errors import UsageError
from fuzz.core.base.exits import Exit
from fuzz.core.base.files import unwritable
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.findings.codec import encoded
from fuzz.report import github
from fuzz.report.github import comment
from fuzz.report.outline import Failure, Outline, TargetLine
from fuzz.report.totals import not_judged, remarks

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 5000
"""The most results of one upload that GitHub shows, by its documentation. It accepts 25,000, and drops those beyond the
shown ones."""
FINGERPRINT = "kernelfuzzBucket/v1"

_RULES = {
    Verdict.FAIL_NUMERIC: "a finite value outside what a correct implementation may return",
    Verdict.FAIL_NONFINITE: "NaN or infinity where none may be, or none where one must be",
    Verdict.FAIL_LAW: "a law that the kernel declares does not hold bit for bit",
    Verdict.FAIL_MEMORY: "read or write outside the tensors",
    Verdict.FAIL_SHAPE: "an output of the wrong shape",
    Verdict.FAIL_DTYPE: "an output of the wrong dtype",
    Verdict.FAIL_INPUT_MODIFIED: "an input that is no output was changed",
    Verdict.FAIL_UNWRITTEN: "an output element holds what it held before the call: never written, or made of it",
    Verdict.FAIL_ACCEPTED_INVALID: "an input that must be rejected was taken",
    Verdict.CRASH: "the kernel crashed, or cannot be built or started",
    Verdict.TIMEOUT: "the kernel did not return in time",
    Verdict.REJECTED: "the kernel refused an input that it is declared to accept",
    Verdict.FAIL_PROCESS: "the kernel left its process changed",
}
"""The meaning of each verdict that is a finding. The order never changes, since rules are numbered by it."""
_NUMBER = {verdict: number for number, verdict in enumerate(_RULES)}


def sarif(outline: Outline) -> str:
    """Return the text of the file."""
    shown = outline.failures[:MOST_RESULTS]
    outcome = outline.outcome
    told = [*(("error", line) for line in remarks(outcome)), *(("warning", line) for line in not_judged(outcome))]
    notifications = [{"level": level, "message": {"text": line}} for level, line in told]
    invocation = {
        "executionSuccessful": outcome.code in (Exit.OK, Exit.FINDINGS),
        "exitCode": outcome.code,
        "exitCodeDescription": outcome.ending,
        "toolExecutionNotifications": notifications,
    }
    if len(shown) < len(outline.failures):
        cut = f"{len(outline.failures) - len(shown)} further buckets are left out here; see the other reports"
        notifications.append({"level": "warning", "message": {"text": cut}})
    run = {
        "tool": {"driver": _driver(outline)},
        "invocations": [invocation],
        "results": [_result(failure, number) for failure, number in zip(shown, _numbered(shown), strict=True)],
        "columnKind": "unicodeCodePoints",
        "properties": {"seed": outline.seed, "cases": outline.cases, "judged": outline.judged},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _driver(outline: Outline) -> dict[str, Any]:
    rules = [
        {"id": verdict.value, "shortDescription": {"text": text}, "defaultConfiguration": {"level": "error"}}
        for verdict, text in _RULES.items()
    ]
    return {"name": "kernelfuzz", "version": str(outline.environment.get("kernelfuzz", "0")), "rules": rules}


def _numbered(failures: Sequence[Failure]) -> Iterator[int]:
    """Yield for each failure its number among those with the same fingerprint: a kernel may fail in the same way for
    several causes."""
    seen: Counter[str] = Counter()
    for failure in failures:
        seen[failure.fingerprint] += 1
        yield seen[failure.fingerprint]


def _result(failure: Failure, number: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": failure.verdict.value,
        "ruleIndex": _NUMBER[failure.verdict],
        "level": "note" if failure.known else "error",
        "message": {"text": f"{failure.headline}\n\n{failure.brief}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {
                        "uri": quote(failure.location.path, errors="replace"),
                        "uriBaseId": "%SRCROOT%",
                    },
                    "region": {"startLine": failure.location.line},
                },
                "logicalLocations": [{"name": failure.kernel, "kind": "function"}],
            }
        ],
        "partialFingerprints": {FINGERPRINT: failure.fingerprint + (f":{number}" if number > 1 else "")},
        "properties": {"targets": list(failure.targets), "count": failure.count, "law": failure.law},
    }
    if failure.known:
        result["suppressions"] = [{"kind": "external", "justification": failure.known}]
    return result


_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def junit(outline: Outline) -> str:
    """Return the file's text. It contains no times, so that equal runs give equal files."""
    root = ET.Element("testsuites", name=f"kernelfuzz {outline.verb}")
    for kernel, lines in groupby(outline.targets, key=lambda line: line.kernel):
        _kernel_suite(root, outline, kernel, list(lines))
    _use_suite(root, outline)
    for suite in root:
        _count(suite)
    _count(root)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _use_suite(root: ET.Element, outline: Outline) -> None:
    """Add a suite for the use itself: its ending, which is an error unless the use passed or only kernels failed; its
    remarks; and the kernels that were not judged."""
    suite = ET.SubElement(root, "testsuite", name=outline.verb)
    ending = ET.SubElement(suite, "testcase", classname=outline.verb, name="ending")
    if outline.outcome.code not in (Exit.OK, Exit.FINDINGS):
        ET.SubElement(ending, "error", message=outline.outcome.ending, type=outline.outcome.code.name)
    for tag, lines in (("failure", remarks(outline.outcome)), ("skipped", not_judged(outline.outcome))):
        for line in map(_clean, lines):
            ET.SubElement(ET.SubElement(suite, "testcase", classname=outline.verb, name=line), tag, message=line)


def _kernel_suite(root: ET.Element, outline: Outline, kernel: str, lines: list[TargetLine]) -> None:
    suite = ET.SubElement(root, "testsuite", name=kernel)
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(outline, lines):
        ET.SubElement(properties, "property", name=name, value=_clean(value))
    failures = [failure for failure in outline.failures if failure.kernel == kernel]
    for line in lines:
        for law in ("", *line.laws):
            _test_case(suite, line, law, [f for f in failures if f.law == law and line.target in f.targets])


def _properties(outline: Outline, lines: list[TargetLine]) -> Iterator[tuple[str, str]]:
    yield "seed", str(outline.seed)
    for name in ("kernelfuzz", "python", "machine"):
        yield name, str(outline.environment.get(name, ""))
    for dtype in sorted({dtype for line in lines for dtype in line.worst}):
        worst = max((line.worst[dtype] for line in lines if dtype in line.worst), key=lambda each: each.ratio)
        yield f"worst passing err/budget {dtype}", f"{worst.ratio:.4f} ({worst.where})"


def _test_case(suite: ET.Element, line: TargetLine, law: str, failures: list[Failure]) -> None:
    case = ET.SubElement(suite, "testcase", classname=line.target, name=f"{line.op} law {law}" if law else line.op)
    for failure in failures:
        if not failure.known:
            # Only the first target has the text: a bucket may be seen on fifty targets.
            here = failure.targets[0] == line.target
            shown = ET.SubElement(case, "failure", message=_clean(failure.headline), type=failure.verdict.value)
            shown.text = _clean(failure.told(verbose=True)) if here else f"as on {failure.targets[0]}"
    reason = _reason_to_skip(line, law, failures)
    if reason and not len(case):
        ET.SubElement(case, "skipped", message=_clean(reason))


def _reason_to_skip(line: TargetLine, law: str, failures: list[Failure]) -> str:
    """Return why the test case proves nothing; '' if it proves something."""
    if line.not_run:
        return f"NOT_RUN: {line.not_run}"
    known = next((failure.known for failure in failures), "")
    if known:
        return f"known failure: {known}"
    return "no case was checked by this law" if law and not line.laws[law] else ""


def _count(element: ET.Element) -> None:
    """Set the numbers of an element's test cases, and of those that failed or were skipped."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(count, str(sum(case.find(tag) is not None for case in cases)))


def _clean(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


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
        runs = f"{counted(line.judged, 'run')}, worst passing err/budget {line.ratios or '-'}"
        yield f"{line.target}: {counted(line.findings, 'finding')}, {line.ratios if line.not_run else runs}"


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
            Path(summary).parent.mkdir(parents=True, exist_ok=True)
            with Path(summary).open("a", encoding="utf-8", errors="replace") as file:
                file.write(content)
    elif wanted.path is None:
        sys.stdout.write(content)
    else:
        wanted.path.parent.mkdir(parents=True, exist_ok=True)
        wanted.path.write_text(content, encoding="utf-8", errors="replace")
