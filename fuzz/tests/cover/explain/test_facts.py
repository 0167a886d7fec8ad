"""A rule is stated where a person can read it and, beside values, where one change shows what else it speaks of."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fuzz.core.base.case import contiguous
from fuzz.core.base.feature import Feature
from fuzz.explain.explanation import Counterfactual, Held
from fuzz.explain.facts import breakdown_of, so_far, stated
from fuzz.explain.rule.rule import Atom, Learned, Rule
from fuzz.explain.stages.conclusion import Conclusion
from fuzz.tests.common.features import N
from fuzz.tests.common.planted import a_case
from oracles.formula.exact.deadline import LateError

_LARGE = Atom(Feature("largest element", "x"), ">=", (88.0,), 1.0)
_LONG = Atom(N, ">=", (9,), 1.0)
_EPS = Atom(Feature("parameter", "eps"), "<=", (0.5,), 1.0)
_ALIGNED = Atom(Feature("address", "x", "", 64), "=", (0,), 1.0)


def _concluded(*rules: Rule) -> Conclusion:
    first, *others = rules
    return Conclusion(Learned(first, 9, 9, tuple(others)), None, cores=rules, stands=True)


def _changed(subject: str, *passing: float) -> Counterfactual:
    return Counterfactual(subject, 1, passing, (2,))


@pytest.mark.parametrize(
    ("rule", "changes", "is_stated"),
    [
        (Rule((_LARGE, _LONG)), (), True),
        (Rule((_LARGE, _ALIGNED)), (), False),
        (Rule((_LARGE, _ALIGNED)), (_changed("offset"),), False),
        (Rule((_LARGE, _ALIGNED)), (_changed("offset", 1),), True),
        (Rule((_LARGE, _EPS)), (_changed("offset", 1),), False),
        (Rule((_LARGE, _EPS)), (_changed("eps", 1),), True),
        (Rule((_LONG, _ALIGNED)), (), True),
    ],
)
def test_what_no_change_shows_is_not_said_beside_values(
    rule: Rule, changes: tuple[Counterfactual, ...], is_stated: bool
) -> None:
    assert (stated(_concluded(rule), changes) is not None) == is_stated


def test_an_element_whose_exact_value_takes_long_is_told_roughly(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise LateError

    case = a_case(contiguous((1, 2)))
    check: Any = SimpleNamespace(output="y", worst_index=(0, 1))
    outcome: Any = SimpleNamespace(outputs={"y": bytes(8)})
    truth = SimpleNamespace(explain=late, explain_roughly=lambda *asked: asked)
    monkeypatch.setattr("fuzz.explain.facts.truth_of", lambda *_: truth)
    target: Any = SimpleNamespace(contract="contract")
    told: Any = breakdown_of(case, check, outcome, target)
    assert told == ("contract", "y", (0, 1), 0.0)


def test_a_rule_with_two_ors_is_none() -> None:
    either, bands = Rule((_LONG,)), Rule((Atom(N, "within", (1, 2, 5, 6), 1.0),))
    assert stated(_concluded(either, Rule((_EPS,)))) is not None
    assert stated(_concluded(either, Rule((_EPS,)), Rule((_LARGE,)))) is None
    assert stated(_concluded(bands)) is not None
    assert stated(_concluded(bands, either)) is None


def test_always_is_not_said_of_what_unknown_values_hide() -> None:
    always = replace(_concluded(Rule(())), cores=(Rule(()),))
    assert stated(always) is not None
    assert stated(replace(always, hidden=262)) is None
    assert stated(replace(always, hidden=262, hides=Rule((_EPS,)))) is not None
    assert stated(replace(_concluded(Rule((_LONG,))), hidden=262)) is not None


def test_what_was_not_put_to_the_test_in_time_is_told_as_such() -> None:
    """It fits all that was tried: a reader sees what it is likely to be."""
    short = replace(_concluded(Rule((_LONG,))), stands=False)
    assert so_far(short) == "so far n >= 9 fits all 9 cases that were tried, but is untested on others"
    nearly = replace(short, learned=Learned(Rule((_LONG,)), 428, 431))
    assert "so far n >= 9 fits 428 of 431 cases that were tried" in so_far(nearly), "values hide it in some"
    assert so_far(replace(short, learned=Learned(Rule((_LONG,)), 300, 431))) == "", "much is against it"
    assert so_far(replace(short, learned=None)) == ""
    held = Held(_LONG, 19)
    assert so_far(replace(short, held=(held,))) == "", "hardly a case was held against it"
    assert so_far(replace(short, held=(replace(held, passing=20),))) == so_far(short)
