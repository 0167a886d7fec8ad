"""Each recipe really makes what its name says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzz.core.base.stream import Stream
from fuzz.core.generate.coded_recipes import CODED
from fuzz.core.generate.gate_recipes import GATES, LOG_GATES
from fuzz.core.generate.menus import FACTORS, recipes
from fuzz.core.generate.recipes import RECIPES, Recipe, RowSpec
from fuzz.core.generate.row_recipes import LOG_PROBABILITIES, LOGITS, PROBABILITIES
from oracles.dtypes import FLOATS, FORMATS

KEYS = st.integers(0, 2**64 - 1)
MENUS: dict[str, Mapping[str, Recipe]] = {
    "rows": RECIPES, "factors": FACTORS, "logits": LOGITS, "probabilities": PROBABILITIES, "logs": LOG_PROBABILITIES,
    "gates": GATES, "log gates": LOG_GATES,
}  # fmt: skip


def _rows(
    name: str, key: int, *, rows: int = 8, n: int = 200, dtype: str = "f32", eps: float = 1e-5
) -> NDArray[np.float64]:
    return recipes()[name].draw(RowSpec(rows, n, dtype, eps), Stream(key)).astype(np.float64)


@given(KEYS)
def test_constant_rows_are_constant_and_differ_from_each_other(key: int) -> None:
    values = _rows("constant", key)
    assert (values == values[:, :1]).all()
    assert len(set(values[:, 0].tolist())) == 8


def _most_different(recipe: Recipe, dtype: str) -> int:
    """The number of different finite values in the most varied of many rows."""
    rows = [row for key in range(4) for row in recipe.draw(RowSpec(8, 65, dtype, 1e-5), Stream(key)).astype(np.float64)]
    return max(len({*row[np.isfinite(row)].tolist()}) for row in rows)


@pytest.mark.some(21)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("menu", MENUS)
def test_rows_that_vary_in_f32_vary_in_every_dtype(menu: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        varied = {name: each for name, each in MENUS[menu].items() if _most_different(each, "f32") >= 3}
        assert len(varied) > len(MENUS[menu]) / 2
        assert {name: seen for name, each in varied.items() if (seen := _most_different(each, dtype)) < 3} == {}


@pytest.mark.parametrize("dtype", FLOATS)
def test_recipes_stay_within_the_dtype_and_use_its_range(dtype: str) -> None:
    """Finite numbers stay finite; where there is no infinity, the largest number stands for it."""
    form = FORMATS[dtype]
    with np.errstate(all="ignore"):
        drawn = {
            name: np.abs(each.draw(RowSpec(64, 65, dtype, 1e-5), Stream(1)).astype(np.float64))
            for name, each in recipes().items()
        }
    assert np.isinf(drawn["one_inf"]).any() == form.infinities
    assert np.isnan(drawn["one_nan"]).sum() == 1
    assert drawn["near_overflow"].max() <= form.max
    assert drawn["ordinal"].max() > form.max / 4
    assert 0 < drawn["ordinal"][drawn["ordinal"] > 0].min() <= 4 * form.tiny
    assert 0 < drawn["subnormal"].max() < 8 * form.tiny
    assert drawn["row_scales"].max() > 2.0 ** min(50, form.emax // 2)


@given(KEYS)
def test_row_scales_differ_between_rows(key: int) -> None:
    levels = np.sqrt((_rows("row_scales", key, rows=32) ** 2).mean(axis=1))
    assert levels.max() / levels.min() > 2.0**20


@given(KEYS)
def test_near_eps_rows_have_a_mean_square_comparable_to_eps(key: int) -> None:
    ratio = (_rows("near_threshold", key) ** 2).mean(axis=1) / 1e-5
    assert (ratio > 2.0**-9).all()
    assert (ratio < 2.0**9).all()


@given(KEYS)
def test_far_below_eps_rows_are_far_below_eps(key: int) -> None:
    assert ((_rows("far_below_threshold", key) ** 2).mean(axis=1) < 1e-5 / 2.0**18).all()


@given(KEYS)
def test_subnormal_rows_hold_mostly_subnormal_numbers(key: int) -> None:
    for dtype, smallest in (("f16", 2.0**-14), ("f32", 2.0**-126)):
        values = np.abs(_rows("subnormal", key, dtype=dtype))
        assert (values < smallest).mean() > 0.9
        assert (values > 0).any()


def test_near_overflow_rows_fall_on_both_sides_of_the_threshold() -> None:
    sums = np.concatenate([(_rows("near_overflow", key) ** 2).sum(axis=1) for key in range(8)])
    largest = float(np.finfo(np.float32).max)
    assert (sums > largest).any()
    assert (sums < largest).any()


@given(KEYS)
def test_a_spike_is_the_only_large_element_of_its_row(key: int) -> None:
    values = np.abs(_rows("spike", key))
    assert ((values >= 16).sum(axis=1) == 1).all()


def test_spikes_visit_the_first_the_last_and_tail_positions() -> None:
    columns = np.concatenate([np.abs(_rows("spike", key)).argmax(axis=1) for key in range(20)])
    assert {0, 199} <= set(columns.tolist())
    assert ((columns > 136) & (columns < 199)).any()
    assert ((columns > 0) & (columns < 136)).any()


@given(KEYS)
def test_one_nan_and_one_inf_are_alone(key: int) -> None:
    assert np.isnan(_rows("one_nan", key)).sum() == 1
    assert np.isinf(_rows("one_inf", key)).sum() == 1


def test_zero_rows_come_in_both_signs_beside_other_rows() -> None:
    values = _rows("zero_rows", 5, rows=40)
    zero = (values == 0).all(axis=1)
    assert 0 < zero.sum() < 40
    signs = set(np.signbit(values[zero]).ravel().tolist())
    assert signs == {True, False}


@given(KEYS)
def test_ordinal_values_span_the_exponents(key: int) -> None:
    exponents = np.frexp(np.abs(_rows("ordinal", key)))[1]
    assert exponents.max() - exponents.min() > 200


@given(KEYS)
def test_the_scales_of_few_steps_are_rounded_so_far_that_codes_are_not_in_their_range(key: int) -> None:
    """The largest of a row over its scale is 127 anywhere else; an int8 that is not clipped wraps from 128 on."""
    rows = CODED["few_steps"].draw(RowSpec(64, 9, "f32"), Stream(key)).astype(np.float32)
    most = np.abs(rows).max(axis=1)
    codes = np.rint(most / (most / np.float32(127.0)))
    assert np.isfinite(codes).all(), "a scale is never 0"
    assert (codes < 127).any()
    assert (codes > 128).any()
