"""Histories: recognised, and reduced to the fewest and simplest calls, by whatever rule a failure needs them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fuzz.core.base.case import Case
from fuzz.explain.attribute.history import Need, differences, fewest_calls, history_line, need_line, recognise
from fuzz.tests.common.examples import plain

CALLS = tuple(plain(n, eps=eps) for n in range(1, 40) for eps in (0.0, 0.5, 1.0))
CASE = plain(20, eps=0.5)


def _n(case: Case) -> int:
    return case.inputs["x"].layout.shape[-1]


def test_a_case_that_fails_alone_needs_nothing() -> None:
    assert recognise(lambda history: True, CASE, CALLS).need is Need.NOTHING


def test_the_one_call_that_matters_is_found_among_many() -> None:
    asked = 0

    def fails(history: Sequence[Case]) -> bool:
        nonlocal asked
        asked += 1
        return any(_n(call) == 33 and call.params["eps"] == 1.0 for call in history)

    assert fewest_calls(fails, CALLS) == (plain(33, eps=1.0),)
    assert asked < 30


def test_calls_that_matter_only_together_are_both_kept_in_order() -> None:
    def fails(history: Sequence[Case]) -> bool:
        lengths = [_n(call) for call in history]
        return 31 in lengths and 5 in lengths[: lengths.index(31)]

    kept = fewest_calls(fails, CALLS)
    assert [_n(call) for call in kept] == [5, 31]


def test_a_call_becomes_the_case_itself_where_any_call_will_do() -> None:
    found = recognise(lambda history: len(history) > 0, CASE, CALLS)
    assert (found.need, found.history) == (Need.HISTORY, (CASE,))
    assert differences(found.history[0], CASE) == "the same call"


def test_a_call_becomes_the_case_but_for_the_one_thing_that_matters() -> None:
    found = recognise(lambda history: any(call.params["eps"] == 1.0 for call in history), CASE, CALLS)
    assert found.history == (plain(20, eps=1.0),)
    assert history_line(found.history, CASE, "fails") == "fails after 1 earlier call: eps 1"


def test_a_longer_row_is_made_as_short_as_it_may_be() -> None:
    found = recognise(lambda history: any(_n(call) > _n(CASE) for call in history), CASE, CALLS)
    (call,) = found.history
    assert call.inputs["x"].layout.shape == (1, 21)
    assert set(memoryview(call.inputs["x"].bits).cast("f")) == {1.0}


def test_only_the_first_call_matters() -> None:
    """What the first call of a process leaves behind: the kept calls begin with another first one, which will do."""
    found = recognise(lambda history: len(history) > 0 and history[0].params["eps"] != 0.5, CASE, CALLS)
    assert (len(found.history), found.history[0].params["eps"]) == (1, 0.0)


def test_a_failure_that_a_later_call_repairs_is_found_among_the_latest() -> None:
    """All calls together hide it: the state is that of the last 'long' row, unless an early one came first."""

    def fails(history: Sequence[Case]) -> bool:
        return any(_n(call) > 30 for call in history) and not any(_n(call) < 5 for call in history)

    found = recognise(fails, CASE, CALLS)
    assert (found.need, len(found.history)) == (Need.HISTORY, 1)


@pytest.mark.parametrize("kept", [(), CALLS])
def test_calls_that_matter_by_their_number_are_the_case_so_often(kept: Sequence[Case]) -> None:
    """Also where fewer calls are kept than it takes."""
    found = recognise(lambda history: len(history) >= 100, CASE, kept)
    assert (found.need, found.history) == (Need.HISTORY, (CASE,) * 100)
    assert history_line(found.history, CASE, "fails") == "fails after 100 earlier calls: the same call, 100 times"


def test_what_nothing_reproduces_is_said_not_to_repeat() -> None:
    found = recognise(lambda history: False, CASE, CALLS)
    assert (found.need, found.history, found.calls) == (Need.UNKNOWN, (), len(CALLS))


def test_a_failure_that_comes_and_goes_alone_needs_no_history() -> None:
    answers = iter((False,))
    found = recognise(lambda history: len(history) == 0 and next(answers, True), CASE, CALLS)
    assert found.need is Need.NOTHING


@pytest.mark.parametrize("budget", [3, 40])
def test_an_endless_search_ends_with_what_is_known(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.explain.attribute.history._TRIALS", budget)
    found = recognise(lambda history: sum(_n(call) % 3 == 0 for call in history) > 10, CASE, CALLS)
    assert found.need is Need.HISTORY
    assert sum(_n(call) % 3 == 0 for call in found.history) > 10


@pytest.mark.parametrize("count", [1, 36, 300])
def test_the_call_from_which_on_it_fails_is_said_by_its_number(count: int) -> None:
    found = recognise(lambda history: len(history) >= count, CASE, CALLS)
    assert f", and from call {count + 1} on;" in need_line(found, CASE)
    assert str(found.earlier(CASE)) == f"from call {count + 1} on"
    found = recognise(lambda history: len(history) == count, CASE, CALLS[:count])
    assert "and from call" not in need_line(found, CASE), "later calls pass again"
    assert "from call" not in str(found.earlier(CASE))


def test_each_seventh_call_is_told_by_the_first_that_fails() -> None:
    """The calls that are kept, and halves of them, are as many by chance, and so are a thousand."""

    def fails(history: Sequence[Case]) -> bool:
        return len(history) % 7 == 6

    found = recognise(fails, CASE, CALLS[:18], first=lambda calls: 7)
    assert (found.need, found.history, str(found.earlier(CASE))) == (
        Need.HISTORY,
        (CASE,) * 6,
        "in call 7 of a process",
    )
    assert recognise(fails, CASE, CALLS[:18], first=lambda calls: 8).need is Need.UNKNOWN, "it did not fail again"


def test_what_fails_some_time_after_its_first_call_is_told_by_the_seconds() -> None:
    found = recognise(lambda history: False, CASE, CALLS, later=lambda seconds: seconds > 2)
    assert (found.need, str(found.earlier(CASE))) == (Need.UNKNOWN, "when called again 3 s later")
    assert need_line(found, CASE).startswith("needs time: passes in a fresh process, fails there when called again 3 s")
    assert recognise(lambda history: False, CASE, CALLS).earlier(CASE) is None


def test_time_that_many_calls_take_is_not_taken_for_their_number() -> None:
    """On a busy machine 955 calls took the two seconds, and their number was told."""
    found = recognise(lambda history: len(history) >= 955, CASE, CALLS, later=lambda seconds: True)
    assert str(found.earlier(CASE)) == "when called again 3 s later"
    found = recognise(lambda history: len(history) > 0, CASE, CALLS, later=lambda seconds: True)
    assert str(found.earlier(CASE)) == "from call 2 on", "it needs no time"


def test_another_call_that_must_come_before_is_told_by_what_differs() -> None:
    found = recognise(lambda history: any(call.params["eps"] == 1.0 for call in history), CASE, CALLS)
    assert str(found.earlier(CASE)) == "after 1 earlier call: eps 1"
