"""Planted bugs under a search: what is counted is true of bugs of which it is known."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fuzz.quality.__main__ import app
from fuzz.quality.detection import (
    OURS,
    DetectionOptions,
    Searched,
    SearchVerdict,
    by_chance,
    score,
    searched,
    visible_of,
)
from fuzz.quality.rivals import RIVALS, Rival
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
    limits = DetectionOptions(max_cases=96)
    seen = {each.kernel: each for each in searched(PACK, "generic", mutants, limits).seen}
    assert [each.right for each in seen.values()] == [True, False, False, False]
    assert {name for name, each in seen.items() if each.accused} == {WRONG.name, STRIDED.name}
    assert 1 <= seen[WRONG.name].cases <= seen[STRIDED.name].cases <= seen[SAME.name].cases == seen["generic"].cases
    [row] = score([*seen.values()], visible_of([WRONG, STRIDED])).rows
    assert (*row[:3], *row[-2:]) == (OURS, "2 of 3 (67%)", "1 of 1 (100%)", "0 of 1 (0%)", "")


@pytest.mark.parametrize("rival", RIVALS, ids=lambda each: each.name)
def test_a_usual_test_finds_what_is_wrong_everywhere_and_not_what_needs_strides(rival: Rival) -> None:
    named = {each.kernel: each for each in _beside().seen if each.way == rival.name}
    # Divided by 1,025 in place of 1,024 is off by 0.05% after the root; torch's own comparison allows 0.1%.
    assert {name for name, each in named.items() if each.accused} == ({WRONG.name} - {*_blind(rival)})
    assert 1 <= named[WRONG.name].cases <= named[STRIDED.name].cases == named["generic"].cases


def _blind(rival: Rival) -> tuple[str, ...]:
    return (WRONG.name,) if rival.name == "torch same" else ()


@cache
def _beside() -> Searched:
    return searched(PACK, "generic", (WRONG, STRIDED), DetectionOptions(max_cases=1, beside=True))


@pytest.mark.parametrize("rival", RIVALS, ids=lambda each: each.name)
def test_a_usual_test_allows_a_rounding_and_no_large_error(rival: Rival) -> None:
    right = np.linspace(1, 2, 64)
    assert rival.passes(right * (1 + 2.0**-23), right, "f32")
    assert not rival.passes(right * 1.1, right, "f32")


def test_medians_over_seeds_and_the_chance_of_a_difference() -> None:
    def seen(way: str, seed: int, bug: int, accused: bool) -> SearchVerdict:
        return SearchVerdict(way, seed, f"bug{bug}", False, accused, 3, 0.5)

    ours = [seen(OURS, seed, bug, seed > 1 or bug > 0) for seed in range(1, 6) for bug in range(3)]
    theirs = [seen("theirs", seed, bug, bug == 0) for seed in range(1, 6) for bug in range(3)]
    accused = [SearchVerdict("theirs", seed, "right", True, True, 3, 0.5) for seed in range(1, 6)]
    first, second = score([*ours, *theirs, *accused], {"bug0"}).rows
    assert first[1] == "3 (2 to 3) of 3 (100%)"
    assert (second[1], second[-1]) == ("1 of 3 (33%)", by_chance([1] * 5, [2, 3, 3, 3, 3]))
    assert second[-2] == "1 of 1 (100%)"
    # Every one of five above every one of five, without ties: 2 of the 252 ways to order them.
    assert by_chance([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == "p = 0.0079"
    assert by_chance([1, 2, 3], [4, 5, 6]) == "-"


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
