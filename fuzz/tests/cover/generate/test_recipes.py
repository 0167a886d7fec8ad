"""Each recipe really makes what its name says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzz.base.stream import Stream
from fuzz.generate.menus import recipes
from fuzz.generate.recipes import RowSpec

KEYS = st.integers(0, 2**64 - 1)


def _rows(
    name: str, key: int, *, rows: int = 8, n: int = 200, dtype: str = "f32", eps: float = 1e-5
) -> NDArray[np.float64]:
    return recipes()[name].draw(RowSpec(rows, n, dtype, eps), Stream(key)).astype(np.float64)


@given(KEYS)
def test_constant_rows_are_constant_and_differ_from_each_other(key: int) -> None:
    values = _rows("constant", key)
    assert (values == values[:, :1]).all()
    assert len(set(values[:, 0].tolist())) == 8


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
