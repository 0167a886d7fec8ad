"""Each recipe for logits, and for what softmaxes return, really makes what its name says."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.core.base.stream import Stream
from fuzz.core.generate.recipes import RECIPES, RowSpec
from fuzz.core.generate.row_recipes import LOG_PROBABILITIES, LOGITS, PROBABILITIES
from oracles.dtypes import FLOATS

ROWS, N = 64, 200
ALL = {"logits": LOGITS, "probabilities": PROBABILITIES, "log": LOG_PROBABILITIES}


def drawn(name: str, menu: str = "logits", dtype: str = "f32", rows: int = ROWS, n: int = N) -> NDArray[np.float64]:
    spec = RowSpec(rows, n, dtype, 0.0)
    return ALL[menu][name].draw(spec, Stream(5)).astype(np.float64)


GOLDEN = {"logits": "b0f859f7c777e159", "probabilities": "b4f88a12968bef74", "log": "38b39d665af8c187"}


@pytest.mark.parametrize("menu", ALL)
def test_every_recipe_gives_the_same_bits_for_ever(menu: str) -> None:
    whole = hashlib.sha256()
    for name in ALL[menu]:
        whole.update(drawn(name, menu, "f16").tobytes() + drawn(name, menu).tobytes())
    assert whole.hexdigest()[:16] == GOLDEN[menu]


@pytest.mark.parametrize("menu", ALL)
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (2, 7), (0, 4), (4, 0), (2, 1500)])
def test_every_recipe_makes_rows_of_any_shape_in_every_dtype(menu: str, shape: tuple[int, int]) -> None:
    for name in ALL[menu]:
        for dtype in FLOATS:
            assert drawn(name, menu, dtype, *shape).shape == shape
            assert not np.isnan(drawn(name, menu, dtype, *shape)).any(), name


def test_one_logit_or_the_last_ones_dominate() -> None:
    rows = np.sort(drawn("dominant"), axis=1)
    assert (rows[:, -1] - rows[:, -2] > 2).all()
    tail = drawn("heavy_tail")
    assert (tail[:, -1] > tail[:, : N - 8].max(axis=1) + 10).all()


def test_the_greatest_logit_comes_several_times() -> None:
    rows = drawn("tied")
    assert ((rows == rows.max(axis=1, keepdims=True)).sum(axis=1) > 1).all()


def test_masks_begin_end_and_fill_rows() -> None:
    masked = np.isneginf(drawn("masked_run"))
    assert masked.all(axis=1).any()
    assert masked[~masked[:, 0], -1].any(), "some end rows"
    assert masked[~masked[:, -1], 0].any(), "some begin rows"
    assert masked[~masked[:, 0] & ~masked[:, -1]].any(), "some lie within"
    runs = (np.diff(np.pad(masked, ((0, 0), (1, 1))).astype(int), axis=1) == 1).sum(axis=1)
    assert (runs == 1).all()
    assert np.isneginf(drawn("masked")).all(axis=1).any()
    assert (np.isfinite(drawn("one_finite")).sum(axis=1) == 1).all()


def test_offsets_are_large_beside_the_spread() -> None:
    rows = drawn("offset")
    assert (np.abs(rows.mean(axis=1)) > 50).all()
    assert {4, 6} <= {int(np.log10(abs(mean)) + 0.1) for mean in rows.mean(axis=1)}


def test_low_rows_lie_below_finite_stand_ins_for_minus_infinity() -> None:
    assert (drawn("low") < -1e4).all()
    assert (drawn("low") < -5e4).all(axis=1).any()
    assert (drawn("low") < -1e38).all(axis=1).any()
    assert np.isfinite(drawn("low", dtype="f16")).all()


def test_some_exponentials_underflow_by_degrees() -> None:
    rows = drawn("underflowing")
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    assert ((e > 0) & (e < 2.0**-126)).any(axis=1).all()


def test_differences_of_the_largest_numbers_overflow() -> None:
    for dtype, largest in (("f16", 65504.0), ("f32", 3.4e38)):
        rows = drawn("overflowing", dtype=dtype)
        assert (rows.max(axis=1) - rows.min(axis=1) > largest).all()


def test_the_maximum_grows_from_block_to_block() -> None:
    blocks = drawn("rising", n=256).reshape(ROWS, 4, 64).max(axis=2)
    steps = np.diff(blocks, axis=1).mean(axis=1)
    assert (steps > 0).all()
    assert (steps < 0.01).any()
    assert (steps > 40).any()


@pytest.mark.parametrize("name", PROBABILITIES)
def test_returned_rows_are_probabilities_and_their_logarithms(name: str) -> None:
    found, logarithms = drawn(name, "probabilities"), drawn(name, "log")
    totals = found.sum(axis=1)
    assert (np.isclose(totals, 1, atol=1e-5) | (totals == 0)).all()
    assert np.allclose(np.exp(logarithms), found, rtol=1e-4, atol=1e-30)


def test_some_probabilities_are_next_to_one_and_some_are_zero() -> None:
    assert (1 - drawn("certain", "probabilities").max(axis=1) < 1e-6).any()
    assert (drawn("impossible", "probabilities") == 0).any(axis=1).all()
    assert (drawn("equal", "probabilities") == np.float32(1 / N)).all()


def test_shifted_rows_have_means_of_all_sizes_beside_their_spread() -> None:
    rows = RECIPES["shifted"].draw(RowSpec(ROWS, N, "f32", 0.0), Stream(3)).astype(np.float64)
    with np.errstate(divide="ignore"):
        ratio = np.log2(np.abs(rows.mean(axis=1)) / rows.std(axis=1))
    assert ratio.min() < 5
    assert ratio.max() > 16
