"""Where the bad elements are is said of all failing cases, and not only of the few that it is learned from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fuzz.core.base.case import Case
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.attribute.attribution import places_of
from fuzz.report.words import places_words
from fuzz.tests.common.hunting import given_case
from oracles.truth import OutputCheck


def _failure(rows: int, n: int, *, right: int | None = None) -> tuple[Case, Judgement]:
    """Return a failure of a kernel that forgets what eight leave over of a row; one column may look right though it is
    not."""
    case, mask = given_case((rows, n), 1, "contiguous"), np.zeros((rows, n), bool)
    mask[:, n - n % 8 :] = True
    if right is not None:
        mask[:, right] = False
    check = OutputCheck("y", "numeric", (0, n - 1), 9.0, failing=int(mask.sum()), mask=mask)
    return case, Judgement("c-mine@native:gcc-O2", case, Verdict.FAIL_NUMERIC, 9.0, check)


def _said(failures: Sequence[tuple[Case, Judgement]]) -> str:
    found = places_of(failures)
    assert found is not None
    return places_words(found)


@pytest.mark.parametrize("lengths", [(1, 2, 3, 5), (9, 10, 11, 17)])
def test_a_longer_row_shows_what_short_ones_cannot(lengths: tuple[int, ...]) -> None:
    """Up to 7 elements all are bad, and of 9 to 11 it could be a tail of 4."""
    failures = [_failure(2, n) for n in lengths] + [_failure(1, n) for n in range(1, 40) if n % 8]
    assert _said(failures).startswith("tail of 8 = inside, in y (")


def test_what_is_not_true_of_the_smallest_case_is_not_said() -> None:
    """It has one row, and that is bad: that the second row is would be read as nonsense."""
    failures = list[tuple[Case, Judgement]]()
    for rows, n in ((1, 1), (2, 8), (2, 9), (2, 16), (2, 17), *((2, n) for n in range(20, 90))):
        case, mask = given_case((rows, n), 1, "contiguous"), np.zeros((rows, n), bool)
        mask[-1] = True
        check = OutputCheck("y", "numeric", (rows - 1, 0), 9.0, failing=n, mask=mask)
        failures.append((case, Judgement("c-mine@native:gcc-O2", case, Verdict.FAIL_NUMERIC, 9.0, check)))
    assert _said(failures[1:]).startswith("row >= 1, in y (")
    assert _said(failures) == "no simple pattern in y"


def test_an_element_that_looks_right_by_chance_makes_no_further_condition() -> None:
    failures = [_failure(2, n) for n in (21, 22, 23, 30)] + [_failure(1, 13, right=10)]
    assert _said(failures).startswith("tail of 8 = inside, in y (")


@pytest.mark.parametrize(("lucky", "said"), [(1, "tail of 8 = inside, in y ("), (20, "no simple pattern in y")])
def test_a_pattern_stands_though_a_few_of_many_bad_elements_are_right_by_chance(lucky: int, said: str) -> None:
    case, judgement = _failure(12, 39)
    assert judgement.worst is not None
    assert judgement.worst.mask is not None
    bad = np.argwhere(judgement.worst.mask)
    for place in np.random.default_rng(1).permutation(bad)[:lucky]:
        judgement.worst.mask[tuple(place)] = False
    assert _said([(case, judgement)]).startswith(said)
