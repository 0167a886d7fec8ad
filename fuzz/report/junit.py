"""JUnit XML: a suite for each kernel, with a test case for each target and each law.

It is written with the standard library: `junitparser` would save eight statements, but reports a time of zero for each
suite, and where lxml is installed, it refuses characters that must be replaced here anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from xml.etree import ElementTree as ET

from fuzz.core.base.exits import Exit
from fuzz.report.outline import Failure, Outline, TargetLine
from fuzz.report.totals import not_judged, remarks

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
