"""Planted bugs under a search: what is counted is true of bugs of which it is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.quality.__main__ import app
from fuzz.quality.detection import DetectionOptions, score, searched, visible_of
from fuzz.tests.common.hunting import PACK
from fuzz.tests.conftest import Cli

WRONG = next(each for each in PACK.mutants if each.name == "generic-divides-by-n-plus-1")
"""It is wrong everywhere, by more than any tolerance."""
STRIDED = next(each for each in PACK.mutants if each.name == "generic-takes-any-strides")
"""It is right of every contiguous tensor."""
SAME = replace(WRONG, name="generic-same", edits=())
"""No bug at all, which nobody may find."""


def test_a_search_finds_what_it_must_and_accuses_no_right_kernel() -> None:
    mutants = (WRONG, STRIDED, SAME)
    limits = DetectionOptions(max_cases=64)
    seen = {each.kernel: each for each in searched(PACK, "generic", mutants, limits).seen}
    assert [each.right for each in seen.values()] == [True, False, False, False]
    assert {name for name, each in seen.items() if each.accused} == {WRONG.name, STRIDED.name}
    assert 1 <= seen[WRONG.name].cases <= seen[STRIDED.name].cases <= seen[SAME.name].cases == seen["generic"].cases
    [row] = score([*seen.values()], visible_of([WRONG, STRIDED])).rows
    assert (row[0], row[1], row[-1]) == ("2 of 3 (67%)", "1 of 1 (100%)", "0 of 1")


@pytest.mark.whole
def test_the_command_prints_a_row_and_says_what_is_not_found(cli_here: Cli, tmp_path: Path) -> None:
    done = cli_here("detection", "-k", WRONG.name, "--max-cases", "16", "--json", "found.json", app=app)
    assert done.returncode == 0, done.stderr
    assert "not found: none" in done.stdout
    [found] = json.loads((tmp_path / "found.json").read_text())["found"]
    assert [(each["kernel"], each["accused"]) for each in found["seen"]] == [("generic", False), (WRONG.name, True)]


def test_a_name_that_no_bug_has_is_said(cli_here: Cli) -> None:
    wrong = cli_here("detection", "-k", "no_such_bug", app=app)
    assert (wrong.returncode, "plants no bug that matches" in wrong.stderr) == (4, True)
