"""Where luck decides, it is said how far the failure goes: when it fails only, and when always."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.core.base.feature import Feature
from fuzz.explain.rule.bounds import RuleBounds, bounds_of
from fuzz.explain.rule.rule import Atom, Rule, Traits
from fuzz.tests.common.features import ROWS, N, left

_NEVER, _ALWAYS = 300, 600
_DTYPE = Feature("dtype", "x")


def _drawn(count: int, seed: int) -> tuple[list[Traits], list[bool]]:
    """Between two limits luck decides, in one of two dtypes; what else there is has nothing to do with it."""
    rng = np.random.default_rng(seed)
    n, bf16, other = rng.integers(1, 1000, count), rng.integers(0, 2, count), rng.integers(0, 1000, count)
    chance = (n - _NEVER) / (_ALWAYS - _NEVER)
    failed = (bf16 == 0) & (rng.random(count) < chance)
    traits: list[Traits] = [
        {N: int(a), _DTYPE: "bf16" if b else "f32", ROWS: int(c), left("n", 4): int(a) % 4}
        for a, b, c in zip(n, bf16, other, strict=True)
    ]
    return traits, failed.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_both_limits_are_said_and_fresh_cases_do_not_contradict_them(seed: int) -> None:
    reach = bounds_of(*_drawn(3000, seed), 2000)
    (necessary, dtype) = sorted(reach.necessary.atoms, key=lambda atom: atom.trait.text, reverse=True)
    assert (dtype.trait, dtype.relation, dtype.values) == (_DTYPE, "=", ("f32",))
    assert (necessary.trait, necessary.relation) == (N, ">=")
    assert 200 <= int(necessary.values[0]) <= 340
    assert reach.sufficient is not None
    (sufficient,) = reach.sufficient.atoms
    assert (sufficient.trait, sufficient.relation) == (N, ">=")
    assert 580 <= int(sufficient.values[0]) <= 650
    traits, failed = _drawn(3000, seed + 100)
    wrong = [each for each, bad in zip(traits, failed, strict=True) if not reach.agree(each, failed=bad)]
    assert not wrong


@pytest.mark.parametrize("seed", range(4))
def test_where_everything_fails_on_one_side_the_limit_is_close_to_that(seed: int) -> None:
    """Four that pass below are enough; a limit of 38 where 129 fails and 128 passes is read as a mistake."""
    traits, _ = _drawn(1200, seed)
    failed = [int(each[N]) >= 129 for each in traits]
    (atom,) = bounds_of(traits, failed, 200).necessary.atoms
    below = sorted({int(each[N]) for each in traits if int(each[N]) < 129})
    assert (atom.trait, atom.relation) == (N, ">=")
    assert below[-5] < int(atom.values[0]) <= 129


def test_either_that_is_wrong_is_told() -> None:
    """Or the measure could not fail."""
    above = Rule((Atom(N, ">=", (5,), 1.0),))
    reach = RuleBounds(above, 1, Rule((Atom(N, ">=", (9,), 1.0),)), 1)
    assert reach.agree({N: 4}, failed=False)
    assert not reach.agree({N: 4}, failed=True)
    assert reach.agree({N: 7}, failed=True)
    assert reach.agree({N: 7}, failed=False)
    assert not reach.agree({N: 9}, failed=False)


def test_nothing_is_said_of_what_fails_anywhere_by_luck() -> None:
    rng = np.random.default_rng(1)
    traits, _ = _drawn(1000, 1)
    reach = bounds_of(traits, (rng.random(1000) < 0.3).tolist(), 500)
    assert reach.necessary == Rule()
    assert reach.sufficient is None


def test_what_hides_a_failure_in_one_row_is_no_condition_of_all() -> None:
    """None of 1,000 cases fails that has a NaN; a row beside that of the NaN may."""
    nan = Feature("NaN", "x")
    traits, failed = _drawn(1000, 3)
    hidden: list[Traits] = [{**each, nan: "no" if bad else "yes"} for each, bad in zip(traits, failed, strict=True)]
    assert nan not in {atom.trait for atom in bounds_of(hidden, failed, 500).necessary.atoms}


def test_what_a_search_does_not_confirm_is_not_said() -> None:
    """All that was probed first in f32 fails, and of the cases of a search some pass."""
    traits, _ = _drawn(2000, 2)
    failed = [each[_DTYPE] == "f32" and (place < 1000 or place % 3 > 0) for place, each in enumerate(traits)]
    reach = bounds_of(traits, failed, 1000)
    assert reach.necessary == Rule((Atom(_DTYPE, "=", ("f32",), 1.05),))
    assert reach.sufficient is None
    both = bounds_of(traits[:1000], failed[:1000], 500)
    assert both.sufficient == Rule()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.floats(-8, 8), st.booleans()), min_size=1))
def test_the_probes_themselves_never_contradict_them(probes: list[tuple[int, int, float, bool]]) -> None:
    traits: list[Traits] = [
        {N: n, left("n", 4): n % 4, Feature("layout", "x"): "abcd"[word], Feature("magnitude", "x", "largest"): value}
        for n, word, value, _ in probes
    ]
    failed = [bad for *_, bad in probes]
    failed[0] = True
    reach = bounds_of(traits, failed, len(probes) // 2)
    assert all(reach.agree(each, failed=bad) for each, bad in zip(traits, failed, strict=True))
