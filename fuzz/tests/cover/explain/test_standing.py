"""The rounds in which a rule is put to the test: what each is about follows from those before it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.explain.stages.explain import Stage, Standing

_NEW = Standing(100, {Stage.REFUTING: 8, Stage.CLOSING: 8, Stage.SEARCHING: 50, Stage.STANDING: 0}, rounds=3)


@pytest.fixture(autouse=True)
def _convinced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.explain.stages.explain._CONVINCED", 2)


def _after(standing: Standing, *against: int) -> Standing:
    """After rounds with so many probes against the rule, and as many cases of a search as belong to their stage."""
    for count in against:
        standing = standing.after(count, standing.searched[standing.stage], 0)
    return standing


def test_a_rule_that_holds_is_searched_until_it_stands() -> None:
    stages = [_after(_NEW, *[0] * rounds).stage for rounds in range(6)]
    assert stages == [*[Stage.REFUTING] * 2, *[Stage.SEARCHING] * 2, *[Stage.STANDING] * 2]
    assert _after(_NEW, 0, 0, 0, 0).number == 2, "a search that finds nothing is no round"


def test_what_is_against_it_begins_the_test_anew() -> None:
    wrong = [_after(_NEW, *[0] * rounds, 1) for rounds in (1, 3, 4)]
    assert {(each.held, each.true_of) for each in wrong} == {(0, 0)}
    assert [each.stage for each in wrong] == [Stage.REFUTING, Stage.REFUTING, Stage.CLOSING], "the last was round 3"


def test_no_more_rounds_are_held_than_there_are_but_after_a_search() -> None:
    often = _after(_NEW, 1, 1, 1)
    assert often.stage is Stage.CLOSING
    assert often.rounds == 3
    found = _after(replace(often, held=2), 1)
    assert found.number == 4
    assert found.rounds > 3
    assert found.stage is Stage.REFUTING, "the search has shown what no round has"
    assert _after(_NEW, *[1] * 11).is_over is False
    assert _after(_NEW, *[1] * 12).is_over


def test_rare_exceptions_are_looked_into_as_often_as_is_worth_it() -> None:
    assert [_NEW.worth_a_look(against) for against in (0, 1, 2, 3)] == [0, 1, 2, 0]
    assert _NEW.after(2, 0, 5).worth_a_look(2) == 1
