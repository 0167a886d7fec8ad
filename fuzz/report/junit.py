"""JUnit XML: a suite per kernel, a test case per target and law."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from xml.etree import ElementTree as ET

from fuzz.report.outline import Outline, Problem, TargetLine

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""characters that XML 1.0 cannot hold, not even escaped."""


def junit(outline: Outline) -> str:
    """The whole file. It holds no times, so that equal runs give equal files."""
    root = ET.Element("testsuites", name=f"kernelfuzz {outline.verb}")
    for kernel, lines in groupby(outline.targets, key=lambda line: line.kernel):
        _finish(_kernel_suite(outline, kernel, list(lines)), root)
    if outline.complaints:
        suite = ET.Element("testsuite", name=outline.verb)
        for complaint in outline.complaints:
            case = ET.SubElement(suite, "testcase", classname=outline.verb, name=_clean(complaint))
            ET.SubElement(case, "failure", message=_clean(complaint))
        _finish(suite, root)
    for count in ("tests", "failures", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _kernel_suite(outline: Outline, kernel: str, lines: list[TargetLine]) -> ET.Element:
    suite = ET.Element("testsuite", name=kernel)
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(outline, lines):
        ET.SubElement(properties, "property", name=name, value=_clean(value))
    problems = [problem for problem in outline.problems if problem.kernel == kernel]
    for line in lines:
        for law in ("", *line.laws):
            _test_case(suite, line, law, [p for p in problems if p.law == law and line.target in p.targets])
    return suite


def _properties(outline: Outline, lines: list[TargetLine]) -> Iterator[tuple[str, str]]:
    yield "seed", str(outline.seed)
    yield "kernelfuzz", str(outline.environment.get("kernelfuzz", ""))
    yield "python", str(outline.environment.get("python", ""))
    yield "machine", str(outline.environment.get("machine", ""))
    for dtype in sorted({dtype for line in lines for dtype in line.worst}):
        worst = max((line.worst[dtype] for line in lines if dtype in line.worst), key=lambda each: each.ratio)
        yield f"worst err/budget {dtype}", f"{worst.ratio:.4f} ({worst.where})"


def _test_case(suite: ET.Element, line: TargetLine, law: str, problems: list[Problem]) -> None:
    case = ET.SubElement(suite, "testcase", classname=line.target, name=f"{line.op} law {law}" if law else line.op)
    failing = [problem for problem in problems if not problem.known]
    for problem in failing:
        # The text once, with the target that it was shown on: a bucket may be seen on fifty targets.
        here = problem.targets[0] == line.target
        failure = ET.SubElement(case, "failure", message=_clean(problem.headline), type=problem.verdict.value)
        failure.text = _clean(problem.text) if here else f"as on {problem.targets[0]}"
    if failing:
        return
    known = next((problem.known for problem in problems), "")
    if line.not_run:
        ET.SubElement(case, "skipped", message=_clean(f"NOT_RUN: {line.not_run}"))
    elif known:
        ET.SubElement(case, "skipped", message=_clean(f"known failure: {known}"))
    elif law and not line.laws[law]:
        ET.SubElement(case, "skipped", message="no case was checked by this law")


def _finish(suite: ET.Element, root: ET.Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(sum(1 for case in cases if case.find("failure") is not None)))
    suite.set("skipped", str(sum(1 for case in cases if case.find("skipped") is not None)))
    suite.set("errors", "0")
    root.append(suite)


def _clean(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
