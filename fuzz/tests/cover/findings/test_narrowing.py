"""What was measured where a case failed is in its file, and makes the declared contract as narrow again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any as Json

import pytest

from fuzz.core.base.case import CaseError
from fuzz.findings.casefile import Narrowing, parse_narrowing
from oracles.formula.contract import Contract
from oracles.summation import Any, Read

_DECLARED = Contract(sums={"n": Any(), "k": Any()}, points={"h": "maybe input", "g": "maybe input", "s": "f32"})
_MEASURED = replace(
    _DECLARED, sums={"n": Read(((641, 166),)), "k": Any()}, points={"h": "input", "s": "f32"}
)  # fmt: skip


def test_what_a_file_says_is_what_was_measured() -> None:
    found = Narrowing.of(_MEASURED, _DECLARED)
    read = parse_narrowing(found.record(), "found.measured")
    assert read == found == Narrowing({"n": {641: 166}}, {"h": "input", "g": ""})
    assert found.applied(_DECLARED) == _MEASURED
    assert parse_narrowing(None, "found.measured") is None


def test_a_file_narrows_only_what_is_open() -> None:
    """Someone else's says nothing of what the kernel declares."""
    kept = Narrowing({}, {"s": "bf16", "other": "bf16"}).applied(_DECLARED)
    assert kept == _DECLARED


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ([], "found.measured: expected an object"),
        ({"sums": {"n": {"4": 5}}}, "a chain is as long as a sum at most"),
        ({"sums": {"n": {"x": 5}}}, "the longest chain by the number of terms"),
        ({"sums": {"n": {"4": "3"}}}, "is not an integer"),
        ({"points": {"h": 1}}, "found.measured.points.h: missing, or not a string"),
    ],
)
def test_what_is_damaged_is_refused(record: Json, words: str) -> None:
    with pytest.raises(CaseError, match=words):
        parse_narrowing(record, "found.measured")
