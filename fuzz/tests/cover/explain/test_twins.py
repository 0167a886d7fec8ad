"""Traits of a case and its twin together: a limit between the two is stated, whichever of them it is that is beyond."""

from __future__ import annotations

import pytest

from fuzz.core.base.feature import Feature
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.scaling import SCALING
from fuzz.core.laws.slices import BATCH_SUBSET
from fuzz.explain.rule.inducer import learn
from fuzz.explain.rule.rule import Atom, Traits
from fuzz.explain.rule.traits import twin_traits
from fuzz.tests.common.examples import plain
from fuzz.tests.common.features import ROWS


def test_a_limit_between_a_case_and_its_twin_is_one_rule_in_either_direction() -> None:
    def pair(own: int, other: int) -> Traits:
        return {
            ROWS: own,
            Feature("of two", "rows", "smaller"): min(own, other),
            Feature("of two", "rows", "larger"): max(own, other),
        }

    pairs = [(own, other) for own in range(1, 9) for other in range(1, 9)]
    learned = learn([pair(*each) for each in pairs], [(own <= 2) != (other <= 2) for own, other in pairs])
    assert learned.exact
    assert str(learned.rule) == ("rows of the case or of its twin >= 3 and rows of the case or of its twin <= 2")


@pytest.mark.parametrize(
    ("name", "which", "relation", "said"),
    [
        ("eps", "smaller", ">=", "eps of both the case and its twin >= 3"),
        ("eps", "larger", "<=", "eps of both the case and its twin <= 3"),
        ("eps", "smaller", "<", "eps of the case or of its twin < 3"),
        ("rows", "smaller", "=", "the smaller rows of the case and its twin = 3"),
    ],
)
def test_words_say_whether_one_of_the_two_is_meant_or_both(name: str, which: str, relation: str, said: str) -> None:
    assert str(Atom(Feature("of two", name, which), relation, (3,), 1.0)) == said


@pytest.mark.parametrize(
    ("which", "relation", "said"),
    [
        ("smaller", "=", "rows mod 2 of the case or of its twin = 0"),
        ("larger", "=", "rows mod 2 of both the case and its twin = 0"),
        ("smaller", "!=", "rows mod 2 of both the case and its twin != 0"),
        ("larger", "!=", "rows mod 2 of the case or of its twin != 0"),
    ],
)
def test_that_a_residue_is_0_is_said_of_one_of_the_two_or_of_both(which: str, relation: str, said: str) -> None:
    assert str(Atom(Feature("remainder of two", "rows", which, 2), relation, (0,), 1.0)) == said


def test_whether_the_twin_lies_alike_is_a_sentence() -> None:
    trait = Feature("as the twin's", "layout of x")
    said = [str(Atom(trait, "=", (word,), 1.0)) for word in ("differ", "same")]
    assert said == ["layout of x is not the same in the twin", "layout of x is the same in the twin"]


def test_a_law_that_changes_numbers_gives_both_ends_and_one_that_does_not_gives_one() -> None:
    case = plain(64, 6, eps=1e-3)
    subset = LawCheck(BATCH_SUBSET, 1)
    traits = twin_traits(case, subset.twin(case))
    fewer = subset.twin(case).inputs["x"].layout.shape[0]
    assert (traits[Feature("of two", "rows", "smaller")], traits[Feature("of two", "rows", "larger")]) == (fewer, 6)
    assert fewer < 6
    smaller, larger = Feature("of two", "eps", "smaller"), Feature("of two", "eps", "larger")
    assert traits[smaller] == traits[larger]
    scaled = LawCheck(SCALING, 1)
    assert scaled.law.applies(case)
    traits = twin_traits(case, scaled.twin(case))
    assert float(traits[smaller]) < float(traits[larger])
    assert traits[Feature("as the twin's", "layout of x")] == "same"
