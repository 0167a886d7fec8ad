"""A threshold is said as the plainest number between the probes on either side of it."""

from __future__ import annotations

import math

import pytest

from fuzz.tests.common.examples import plain
from fuzz.triage.rule import Atom, Learned, Rule
from fuzz.triage.thresholds import Probed, plainest, plainly

_TRAIT = "largest magnitude of x"


@pytest.mark.parametrize(
    ("limit", "beyond", "said"),
    [
        (7604.0, 7590.0, 7600.0),
        (1.85e19, 1.84e19, 2.0**64),
        (5.99e-8, 6.02e-8, 6e-8),
        (-10016.0, -9990.0, -10000.0),
        (0.5, 0.0, 0.2),
    ],
)
def test_few_digits_are_said_and_powers_of_two_before_others(limit: float, beyond: float, said: float) -> None:
    assert plainest(limit, beyond) == said
    assert min(limit, beyond) <= plainest(limit, beyond) <= max(limit, beyond)


def _said(failing: float, passing: float, relation: str) -> str:
    tried = [Probed({_TRAIT: failing}, True, plain(1)), Probed({_TRAIT: passing}, False, plain(1))]
    learned = Learned(Rule((Atom(_TRAIT, relation, (failing,), 1.0),)), 2, 2)
    found = plainly(learned, tried)
    assert [found.holds(each.traits) for each in tried] == [True, False]
    return str(found.rule)


def test_a_number_that_is_known_to_pass_is_left_out() -> None:
    assert _said(7604.0, 7600.0, ">=") == "largest magnitude of x > 7600"
    assert _said(7600.0, 7596.0, ">=") == "largest magnitude of x >= 7600"
    assert _said(-10003.0, -10000.0, "<=") == "largest magnitude of x < -10000"


def test_what_may_lie_far_from_its_probes_is_said_as_it_was_seen() -> None:
    assert _said(7604.0, 5000.0, ">=") == "largest magnitude of x >= 7604"
    assert _said(math.inf, 5000.0, ">=") == "largest magnitude of x = inf"
