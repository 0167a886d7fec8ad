"""The names and words that reports print stand on the page of words."""

from __future__ import annotations

import re

from fuzz.contracts.measuring import Measured, SumOrder
from fuzz.core.generate.given import VALUES
from fuzz.core.generate.menus import FACTORS, recipes
from fuzz.tests.conftest import CHECKOUT

_PAGE = (CHECKOUT / "fuzz" / "docs" / "words.md").read_text()


def _table() -> str:
    rows = [("rows", name, each.summary) for name, each in recipes().items()]
    rows += [("factors", name, each.summary) for name, each in FACTORS.items()]
    lines = [
        f"| {kind} | `{name}` | {summary.replace('**', '^').replace('|', '&#124;')} |" for kind, name, summary in rows
    ]
    return "\n".join(["", "| of | recipe | values |", "| --- | --- | --- |", *lines, ""])


def test_every_recipe_is_listed_with_its_summary() -> None:
    found = re.search(r"<!-- recipes -->(.*)<!-- /recipes -->", _PAGE, re.DOTALL)
    assert found is not None
    assert found[1] == _table(), f"put this between the marks:\n{_table()}"


def test_every_name_of_given_values_is_told() -> None:
    told = {name for line in re.findall(r"^\| (`.*?) \|", _PAGE, re.MULTILINE) for name in re.findall(r"`(.*?)`", line)}
    assert {*VALUES} <= told


def test_what_is_said_to_be_measured_is_explained() -> None:
    rows = _PAGE.partition("## What is measured")[2]
    lanes = SumOrder("n", 1031, 130, "in 8 lanes", read=True)
    every = Measured(
        "t", "f32", (lanes, SumOrder("n", 1031, 136, "", read=False)), {"n": "it is short"}, 24, 11, True, True,
        {"exp": 1.9, "log": 0.5}, {"h": True, "q": False}, True,
    )  # fmt: skip
    others = Measured("t", "f32", fused=False, repeats=False)
    for text in (every.text, others.text, Measured("t", "f32").text):
        for said in text.removeprefix("measured: ").replace("log", "exp").replace("q not", "not").split(", "):
            plain = re.sub(r"^h not", "not", said).replace("not rounded to the dtype of the inputs", "not rounded")
            assert plain in rows, said
