"""Traits of a case and its twin together: a limit between the two is stated, whichever of them it is that is beyond."""

from __future__ import annotations

import pytest

from fuzz.laws.law import LawCheck
from fuzz.laws.rows import BATCH_SUBSET
from fuzz.laws.scaling import SCALING
from fuzz.tests.common.examples import plain
from fuzz.triage.inducer import learn
from fuzz.triage.rule import Atom, Traits
from fuzz.triage.twins import twin_traits


def test_a_limit_between_a_case_and_its_twin_is_one_rule_in_either_direction() -> None:
    def pair(own: int, other: int) -> Traits:
        return {
            "rows": own,
            "the smaller rows of the two": min(own, other),
            "the larger rows of the two": max(own, other),
        }

    pairs = [(own, other) for own in range(1, 9) for other in range(1, 9)]
    learned = learn([pair(*each) for each in pairs], [(own <= 2) != (other <= 2) for own, other in pairs])
    assert learned.exact
    assert str(learned.rule) == ("rows of the case or of its twin >= 3 and rows of the case or of its twin <= 2")


@pytest.mark.parametrize(
    ("trait", "relation", "said"),
    [
        ("the smaller eps of the two", ">=", "eps of both the case and its twin >= 3"),
        ("the larger eps of the two", "<=", "eps of both the case and its twin <= 3"),
        ("the smaller eps of the two", "<", "eps of the case or of its twin < 3"),
        ("the larger rows mod 2 of the two", "=", "the larger rows mod 2 of the two = 3"),
        ("layout of x and that of the twin", "=", "layout of x and that of the twin = 3"),
    ],
)
def test_words_say_whether_one_of_the_two_is_meant_or_both(trait: str, relation: str, said: str) -> None:
    assert str(Atom(trait, relation, (3,), 1.0)) == said


def test_a_law_that_changes_numbers_gives_both_ends_and_one_that_does_not_gives_one() -> None:
    case = plain(64, 6, eps=1e-3)
    subset = LawCheck(BATCH_SUBSET, 1)
    traits = twin_traits(case, subset.twin(case))
    fewer = subset.twin(case).inputs["x"].layout.shape[0]
    assert (traits["the smaller rows of the two"], traits["the larger rows of the two"]) == (fewer, 6)
    assert fewer < 6
    assert traits["the smaller eps of the two"] == traits["the larger eps of the two"]
    scaled = LawCheck(SCALING, 1)
    assert scaled.law.applies(case)
    traits = twin_traits(case, scaled.twin(case))
    assert float(traits["the smaller eps of the two"]) < float(traits["the larger eps of the two"])
    assert traits["layout of x and that of the twin"] == "same"
