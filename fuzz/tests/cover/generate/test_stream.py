"""The generator's bits are a contract: a case file's seed must mean the same values for ever."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.core.base.stream import Ahead, Dice, Stream, dice_each, dice_of
from fuzz.core.generate.menus import FACTORS, recipes
from fuzz.core.generate.recipes import Listener, Recipe, RowSpec
from fuzz.core.generate.row_recipes import LOGITS, PROBABILITIES


def test_the_first_words_never_change() -> None:
    words = Stream(7).words(3)
    assert [f"{word:016x}" for word in words.tolist()] == GOLDEN_WORDS


def test_every_recipe_gives_the_same_bits_for_ever() -> None:
    digest = {}
    for name, recipe in recipes().items():
        whole = hashlib.sha256()
        for dtype in ("f16", "f32"):
            whole.update(recipe.draw(RowSpec(5, 67, dtype, 1e-5), Stream(11)).tobytes())
        digest[name] = whole.hexdigest()[:16]
    assert digest == GOLDEN_RECIPES


@given(st.integers(0, 2**64 - 1))
def test_normal_numbers_have_mean_zero_and_variance_one(key: int) -> None:
    values = Stream(key).normal(20_000)
    assert abs(values.mean()) < 6 / np.sqrt(20_000)
    assert abs(values.var() - 1) < 0.06
    assert np.abs(values).max() < 4.9


@given(st.integers(0, 2**64 - 1))
def test_uniform_numbers_fill_the_unit_interval(key: int) -> None:
    values = Stream(key).uniform(20_000)
    assert 0 <= values.min() < 0.01
    assert 0.99 < values.max() < 1
    assert abs(values.mean() - 0.5) < 6 * np.sqrt(1 / 12 / 20_000)


@given(st.integers(0, 2**64 - 1), st.integers(-50, 50), st.integers(0, 40))
def test_integers_reach_both_ends_and_stay_inside(key: int, low: int, width: int) -> None:
    values = Stream(key).integers(4000, low, low + width)
    assert set(values.tolist()) <= set(range(low, low + width + 1))
    assert {low, low + width} <= set(values.tolist())


_ASKS = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 40)), max_size=5, unique_by=lambda ask: ask[0])


@given(_ASKS, _ASKS)
def test_numbers_that_are_drawn_ahead_are_those_of_each_stream(
    normals: list[tuple[int, int]], words: list[tuple[int, int]]
) -> None:
    ahead = Ahead(normals, words)
    for key, count in normals:
        assert (Stream(key, ahead).normal(count) == Stream(key).normal(count)).all()
    for key, count in words:
        for asked in (count // 2, count, count + 3):  # fewer, and more than are there
            assert (Stream(key, ahead).words(asked) == Stream(key).words(asked)).all()
        assert (Stream(key, ahead).child("a").words(3) == Stream(key).child("a").words(3)).all()


def test_normal_numbers_that_are_drawn_ahead_may_be_written_over() -> None:
    ahead = Ahead([(5, 8)])
    Stream(5, ahead).normal(8)[:] = 0.0
    assert (Stream(5, ahead).normal(8) == Stream(5).normal(8)).all()


@pytest.mark.parametrize("registry", [recipes(), FACTORS, LOGITS, PROBABILITIES])
def test_what_recipes_ask_for_is_overheard(registry: Mapping[str, Recipe]) -> None:
    """All of it, but for recipes that draw from others: a wrong guess would only cost time."""
    spec = RowSpec(4, 37, "f32", 1e-5)
    for name, recipe in registry.items():
        asked = {ask.label: ask.count(spec) for ask in recipe.asks}
        listener = Listener(Stream(3).key)
        recipe.fill(spec, listener)
        heard = {label: count for (label, _), count in listener.heard.items()}
        assert name in ("mixed_rows", "ones", "equal") or (
            asked and asked.items() <= heard.items() and len(heard) == len(asked)
        )


def test_dice_of_one_stream_have_rolls_of_their_own() -> None:
    rolls = [[dice.below(2**64) for _ in range(100)] for dice in dice_of(Stream(9), 16)]
    assert len({roll for each in rolls for roll in each}) == 1600
    assert rolls == [[dice.below(2**64) for _ in range(100)] for dice in dice_of(Stream(9), 16)]


def test_children_are_independent_of_each_other() -> None:
    parent = Stream(3)
    first, second = parent.child("a").words(1000), parent.child("b").words(1000)
    assert not set(first.tolist()) & set(second.tolist())


@pytest.mark.some(52)
@pytest.mark.parametrize("name", list(recipes()))
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (4, 129)])
def test_a_recipe_fills_the_shape_it_was_asked_for(name: str, dtype: str, shape: tuple[int, int]) -> None:
    rows, n = shape
    values = recipes()[name].draw(RowSpec(rows, n, dtype, 1e-6), Stream(1))
    assert values.shape == shape
    wide = values.astype(np.float64)
    if name not in ("one_nan", "one_inf", "infinite_rows", "mixed_rows"):
        assert np.isfinite(wide).all()


GOLDEN_WORDS: list[str] = ["74b5abcc66b8bdc1", "26c4558991f4d75d", "81a9471e0236a2a5"]
GOLDEN_RECIPES: dict[str, str] = {
    "constant": "6b22802e45b83ca4",
    "normal": "62b4e4eea99ca88a",
    "uniform": "7217903e6d21211c",
    "alternating": "d19ecdcf24d2def4",
    "monotone": "698cd5481fbc7a75",
    "powers_of_two": "48a887d235a058cb",
    "row_scales": "0958516a545ef573",
    "spike": "20428aadf4fe04ba",
    "zero_rows": "b85d413b51b3e3bb",
    "near_threshold": "1babb30e6451a73e",
    "far_below_threshold": "bcd734bf6366c201",
    "subnormal": "493b87619dd24bb0",
    "near_overflow": "5ad0b4771aa34b77",
    "offset_mean": "2b43a05adabcec49",
    "ordinal": "e57f9271a187b659",
    "one_nan": "7fd100cdcf146f54",
    "one_inf": "dcdf4ec9d0280454",
    "shifted": "7e40f90fac409425",
    "large_mean": "14f748fd17887dee",
    "magnitudes": "590c110b49e9d070",
    "infinite_rows": "2003a3f44923cb24",
    "negative_zero_rows": "c04ca2f817c3912c",
    "one_hot": "e8b63d767bfc8b4f",
    "ones": "52161c5f76fd8a96",
    "ties": "f28d994ae20a39ce",
    "near_numbers": "81d87922cef0476b",
    "mixed_rows": "6ef05d69575f0ffa",
}


def test_dice_of_several_streams_are_those_of_each() -> None:
    streams = [Stream(9).child(str(place)) for place in range(5)]
    together = [[dice.below(2**64) for _ in range(100)] for dice in dice_each(streams)]
    assert together == [[dice.below(2**64) for _ in range(100)] for dice in map(Dice, streams)]
    assert dice_each([]) == []


def _mixed(word: int) -> int:
    """SplitMix64's finaliser in whole numbers."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def test_words_are_those_of_their_counters_however_many_are_asked_for() -> None:
    key, count = 2**63 + 5, 10_000
    counters = [(number * 0x9E3779B97F4A7C15 + key) % 2**64 for number in range(1, count + 1)]
    assert Stream(key).words(count).tolist() == [_mixed(_mixed(counter)) for counter in counters]
    assert (Stream(key).normal(count)[:3000] == Stream(key).normal(3000)).all()


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 1), (-4, 3), (0, 4), (-8, 8)])
def test_integers_are_what_a_division_leaves(low: int, high: int) -> None:
    found = Stream(3).integers(500, low, high)
    assert found.dtype == np.int64
    assert found.tolist() == [word % (high - low + 1) + low for word in Stream(3).words(500).tolist()]
