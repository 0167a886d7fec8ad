"""Comparisons of NumPy and SciPy in a suite: a value is judged by the calls that its source has for it."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from fuzz.tasks.comparison import MPMATH, OPEN, RIGHT, WRONG, Comparisons
from fuzz.tasks.special import EXACT, strayed

_SUITE = """
import numpy as np
from numpy.testing import assert_allclose, assert_almost_equal
from scipy import special


def check(value, expected):
    assert_allclose(value, expected, rtol=1e-3)


def test_right():
    x = np.linspace(0.5, 2, 7)
    y = np.exp(x) / 2
    check(y, np.e ** x / 2)
    assert_almost_equal(np.sin(x).sum(), 6.4, decimal=0)
    assert_allclose([0.9953222650189527], special.erf([2.0]))
    assert_allclose(special.jv(0.5, [1.0, 2.0]), [0.6713967071418, 0.5130161365618])


def test_that_is_wrong_itself():
    check(np.sin(1.0), 0.9)


def test_of_what_is_not_judged():
    x = np.linspace(0.5, 2, 4)
    check(x, x)
    check(np.linalg.inv(np.eye(2)), np.eye(2))
"""


def test_a_suite_of_numpy_is_judged_and_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_mine=_SUITE)
    done = pytester.runpytest_subprocess("--kernelfuzz-assert", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=2, failed=1)  # that a value is right excuses no test that expects another one
    printed = " ".join(done.stdout.str().split())
    assert "7 comparisons: 5 judged, 0 wrong" in printed
    assert "test_mine.py:15: its tolerance is" in printed
    assert "the value: no call of NumPy or SciPy made it" in printed
    assert "has no formula" in printed


def _erring(x: Any) -> Any:
    """Return the exponential, and of arrays one that is off by 1e-9."""
    return np.exp(x) * (1 + 1e-9 * isinstance(x, np.ndarray))


_erring.__module__ = "numpy"


def test_a_wrong_value_fails_whatever_the_tolerance_allows() -> None:
    comparisons, x = Comparisons(), np.linspace(0.5, 2, 5)
    with comparisons.replacing(), comparisons.judging(), pytest.raises(AssertionError, match="kernelfuzz"):
        np.testing.assert_allclose(_erring(x), np.exp(x), rtol=1e-5)
    [found] = comparisons.found
    assert (found.result, found.passed) == (WRONG, True)


def test_complex_numbers_of_a_library_are_judged() -> None:
    comparisons, z = Comparisons(), np.linspace(0.5, 2, 5) * (1 - 0.5j)
    with comparisons.replacing(), comparisons.judging():
        np.testing.assert_allclose(np.fft.fft(z) / 2, np.fft.fft(z) / 2, rtol=1e-5)
        with pytest.raises(AssertionError, match="kernelfuzz"):
            np.testing.assert_allclose(_erring(z), np.exp(z), rtol=1e-5)
    assert [each.result for each in comparisons.found] == [RIGHT, WRONG]


def test_a_line_that_calls_other_functions_each_time_is_read_each_time() -> None:
    comparisons, x = Comparisons(), np.linspace(0.5, 2, 5)
    with comparisons.replacing(), comparisons.judging():
        for function, power in (np.exp, 2), (np.log, 2), (np.sin, 3), (np.exp, 3):
            np.testing.assert_allclose(function(x) ** power, function(x) ** power)
    assert [each.result for each in comparisons.found] == [RIGHT] * 4


def test_long_indices_that_print_alike_are_told_apart() -> None:
    comparisons, x = Comparisons(), np.linspace(0.5, 2, 3000)
    with comparisons.replacing(), comparisons.judging():
        for first in (1500, 1600):
            at = np.arange(3000)
            at[first] = 7
            np.testing.assert_allclose(np.exp(np.take(x, at)), np.exp(np.take(x, at)))
    assert not any(each.result == WRONG for each in comparisons.found)


def _changed() -> None:
    x = np.linspace(0.5, 2, 5)
    y = np.exp(x)
    x += 1
    np.testing.assert_allclose(y, y)


def _twice() -> None:
    x = np.linspace(0.5, 2, 5)
    for y in (np.exp(x), np.log(x)):
        np.testing.assert_allclose(y, y)


def _unpacked() -> None:
    y, power = np.frexp(np.linspace(0.5, 2, 5))
    np.testing.assert_allclose(y, np.ldexp(y, 0 * power))


def _around() -> None:
    x = np.linspace(0.5, 2, 5)
    y = x
    x = y
    np.testing.assert_allclose(x, y)


def _starred() -> None:
    np.testing.assert_allclose(*(np.exp([1.0, 2.0]),) * 2)


@pytest.mark.parametrize(
    ("test", "why"),
    [
        (_changed, "its expression has another value now"),
        (_twice, "no single assignment has made it"),
        (_unpacked, "make it an argument"),
        (_around, "no single assignment has made it"),
        (_starred, "its call does not show it"),
    ],
)
def test_what_the_source_does_not_show_is_not_judged(test: Any, why: str) -> None:
    comparisons = Comparisons()
    with comparisons.replacing(), comparisons.judging():
        test()
    assert {each.result for each in comparisons.found} == {OPEN}
    assert why in comparisons.found[0].said


def test_a_test_goes_on_as_if_nothing_was_judged() -> None:
    drawn, same, comparisons, calls = np.random.default_rng(1), np.random.default_rng(1), Comparisons(), count()
    np.random.seed(1)
    legacy = stats.norm.rvs(size=2), np.random.random()
    np.random.seed(1)
    with comparisons.replacing(), comparisons.judging():
        np.testing.assert_allclose(np.exp(drawn.random(3)), np.exp(same.random(3)))
        x = stats.norm.rvs(size=2, random_state=drawn)
        np.testing.assert_allclose(x, stats.norm.rvs(size=2, random_state=same))
        y = stats.norm.rvs(size=2)
        np.testing.assert_allclose(y, legacy[0])
        z = integrate.quad(lambda t: t + 0 * next(calls), 0.0, 1.0)[0]
        once = next(calls)
        np.testing.assert_allclose(z, 0.5)
    assert (drawn.random(), np.random.random(), next(calls)) == (same.random(), legacy[1], once + 1)
    assert {each.result for each in comparisons.found} == {OPEN}


@pytest.mark.parametrize("name", EXACT)
def test_a_function_without_a_formula_is_near_what_mpmath_has(name: str) -> None:
    """Each row is the function that its name says, and three digits less are seen."""
    function = getattr(special, name)
    args = [2.0 if name == "expn" else 0.3, 0.4, 0.45, 0.7][: function.nin]
    value = float(function(*args))
    assert strayed(name, args, np.asarray(value)) == ""
    assert "must be" in (strayed(name, args, np.asarray(value * (1 + 1e-12))) or "")


def test_mpmath_judges_no_more_than_it_can() -> None:
    assert strayed("log_ndtr", [31.6], special.log_ndtr(np.asarray(31.6))) == ""  # where 800 digits of ncdf are 1
    assert strayed("betaincc", [0.125, 18.0, 0.996], special.betaincc(0.125, 18.0, np.asarray(0.996))) == ""
    assert strayed("jv", [1.0, 1e9], np.asarray(0.0)) is None
    assert strayed("jv", [1.0, np.nan], np.asarray(np.nan)) is None
    assert strayed("airy", [1.0], np.asarray(0.1)) is None


def test_a_comparison_by_mpmath_says_so() -> None:
    comparisons = Comparisons()
    with comparisons.replacing(), comparisons.judging():
        np.testing.assert_allclose(special.jv(0.5, [1.0, 2.0]), [0.67139671, 0.51301614])
    assert (comparisons.found[0].by, comparisons.found[0].result) == (MPMATH, RIGHT)
