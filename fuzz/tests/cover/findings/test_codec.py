"""An explanation is the same after it was kept, fits its published schema, and is read strictly where a file has it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fuzz.core.base.case import CaseError
from fuzz.core.base.feature import Feature
from fuzz.core.base.verdict import Verdict
from fuzz.explain.explanation import (
    Alternative,
    Attribution,
    BudgetTerm,
    Call,
    Counterfactual,
    Explanation,
    FittingContract,
    Held,
    Mechanism,
    Memory,
    Number,
    Places,
    SharedCondition,
    SmallestCase,
    StatedRule,
    Suggestion,
    UnsetRead,
    Unsteady,
    WorstElement,
)
from fuzz.explain.rule.rule import Atom, Learned, Rule
from fuzz.findings.codec import decoded, encoded, schema
from fuzz.tests.common.features import N
from fuzz.tests.common.told import NOTHING
from fuzz.tests.conftest import CHECKOUT

PUBLISHED = CHECKOUT / "fuzz" / "docs" / "explanation.schema.json"
_RULE = Rule((Atom(N, ">=", (math.inf,), 1.0), Atom(Feature("dtype", "x"), "in", ("f16", "f32"), 2.0)), (Rule(),))
_ONE = Number("1", "0x3f")
_X = Memory("f32", (1, 2), (-3, 1), 4, 1, "after", ("1", "nan"), "ab", "w", -2)
FULL = Explanation(
    "k", "softmax", "k.c", Verdict.FAIL_NUMERIC, "c-k@native",
    SmallestCase({"eps": _ONE}, {"x": _X}, {"y": _X}, "0" * 64, "normal", True, Call({}, {"x": _X}, {}), "f" * 64,
                 (("n", 9, 1),)),
    "0.1", law="rerun", reason="why",
    worst=WorstElement("y", (0, 1), _ONE, _ONE, _ONE, _ONE, "1.0", None, 2.5, 3, 4, contradicts=True,
                       terms=(BudgetTerm("y", None, "u"),), facts=(("n", "3"),), given=(("x", "1"),), remarks=("r",)),
    verdicts={"c-k@qemu": "PASS"}, beside={"CRASH": 2},
    contract=FittingContract("mean='divide'", "mean='reciprocal'", 1.5, 1.0, 0.5, 12, 6, 1, telling=True, meaning="m"),
    suggestion=Suggestion("Capabilities(empty=False)", 3, 4),
    counterfactuals=(Counterfactual("eps", 0.25, (1e-6, 4), ("x",)),),
    attribution=Attribution("compiler and flags", "k fails at -O0"),
    rule=StatedRule((Alternative(_RULE, _RULE),), 9, 4, 5, 100, 2, _RULE, (_RULE,), ("rows",), 7,
                    (Held(_RULE.atoms[0], 20),)),
    shared=SharedCondition(_RULE, 12), places=Places("y", Learned(_RULE, 3, 4, (_RULE,))), note="a note",
    mechanism=Mechanism("loses", "x", "n", (3, 4), 5, 2.5, "x - y"), unset=UnsetRead(("registers",), ("NaN",)),
    unsteady=Unsteady(32, 7, 3, "y", (0, 1), 2, 9), explained="in part", option="--explain-time",
)  # fmt: skip


@pytest.mark.parametrize("told", [NOTHING, FULL], ids=["nothing", "everything"])
def test_it_is_the_same_after_it_was_kept_and_fits_the_published_schema(told: Explanation) -> None:
    kept = json.loads(json.dumps(encoded(told), allow_nan=False))
    assert decoded(kept) == told
    Draft202012Validator(json.loads(PUBLISHED.read_text())).validate(kept)


def test_the_published_schema_is_that_of_the_records() -> None:
    assert json.loads(PUBLISHED.read_text()) == json.loads(json.dumps(schema())), (
        "write it again: python3 -m fuzz.findings.codec > fuzz/docs/explanation.schema.json, and raise VERSION"
    )
    Draft202012Validator.check_schema(schema())


def test_one_of_an_older_version_is_read() -> None:
    assert decoded({**encoded(FULL), "schema": 1}) == replace(FULL, schema=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 99}, "explanation.schema: 99, this kernelfuzz reads"),
        ({"kernel": 5}, r"explanation: Expected `str`, got `int` - at `\$.kernel`"),
        ({"rule": {"alternatives": 1}}, "rule.alternatives"),
        ({"explained": "perhaps"}, r"Invalid enum value 'perhaps' - at `\$.explained`"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(change: dict[str, Any], said: str) -> None:
    with pytest.raises(CaseError, match=said):
        decoded({**encoded(FULL), **change})


def test_words_are_made_plain_where_they_come_in() -> None:
    told = decoded(encoded(replace(FULL, note="one\n::error::two")))
    assert told.note == "one\\n\\x3a:error\\x3a:two"
