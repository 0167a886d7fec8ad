"""What agents are told of the JSON is in it, and the page is shipped with the tool."""

from __future__ import annotations

import json
import re
import tomllib

from fuzz.tests.conftest import CHECKOUT

_DOCS = CHECKOUT / "fuzz" / "docs"
_PAGE = (_DOCS / "SKILL.md").read_text()


def test_every_field_that_agents_are_told_of_is_one() -> None:
    schema = json.loads((_DOCS / "ruling.schema.json").read_text())["$defs"]
    told = re.findall(r"^\| `([\w.\[\]]+)` \|", _PAGE, re.MULTILINE)
    assert len(told) == 12
    for field in told:
        kind, name = ("SolutionRuling", field.split(".")[1]) if "." in field else ("Ruling", field)
        assert name.removesuffix("[]") in schema[kind]["properties"], field


def test_every_event_that_agents_are_told_of_is_one() -> None:
    [table] = re.findall(r"^\| event \|.*\n\|.*\n((?:\|.*\n)+)", _PAGE, re.MULTILINE)
    schema = json.loads((_DOCS / "events.schema.json").read_text())["$defs"].values()
    assert [line.split("|")[1].strip() for line in table.splitlines()] == [
        each["properties"]["event"]["enum"][0] for each in schema
    ]
    started, progress, *_ = table.splitlines()
    for line, kind in ((started, "Started"), (progress, "Progressed")):
        fields = next(each for each in schema if each["title"] == kind)["properties"]
        assert {*re.findall(r"`(\w+)`", line)} == {*fields} - {"event"}


def test_the_page_begins_as_agents_look_for_it_and_is_in_the_wheel() -> None:
    assert re.match(r"---\nname: kernelfuzz\ndescription: .+\n---\n", _PAGE)
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    assert "docs/*.md" in settings["tool"]["setuptools"]["package-data"]["fuzz"]
