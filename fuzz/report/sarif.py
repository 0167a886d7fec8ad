"""SARIF 2.1.0: one result for each bucket, with a fingerprint that is the same in every run.

It is written as plain dictionaries. Of the packages with a model of SARIF, sarif-kit makes its own fingerprints,
sarif-pydantic silently accepts a misspelt field, and sarif-om is from 2019 and cannot write JSON by itself. A test
checks the file against the schema.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from fuzz.core.base.exits import Exit
from fuzz.core.base.verdict import Verdict
from fuzz.report.outline import Failure, Outline
from fuzz.report.totals import not_judged, remarks

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 5000
"""The most results of one run that GitHub shows, by its documentation. It accepts 25,000, and drops those beyond the
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
