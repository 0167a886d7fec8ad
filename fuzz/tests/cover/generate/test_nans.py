"""A NaN is drawn with any bits that it may have, kept bit for bit, and judged by being one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuzz
from fuzz import Op, Operand
from fuzz import formula as f
from fuzz.core.base.dtypes import from_bits, nans, numbers
from fuzz.core.base.stream import Stream
from fuzz.core.generate.given import given_rows, repeated_or_cut
from fuzz.core.generate.realise import draw_of, realise
from fuzz.core.generate.search import Search, batches
from fuzz.findings.casefile import from_json, to_json
from fuzz.tests.common.own_pack import unknown_afterwards
from oracles.dtypes import FLOATS, FORMATS
from oracles.ops import register
from oracles.tests.common.whole import quarter


def _words(values: Any) -> set[int]:
    return {*values.view(f"<u{values.dtype.itemsize}").reshape(-1).tolist()}


def _are_nan(values: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.isnan(values)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_word_is_a_nan(dtype: str) -> None:
    assert _are_nan(nans(dtype, Stream(3).words(500))).all()


@pytest.mark.parametrize(
    ("dtype", "some"),
    [
        ("f32", {0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0x7F800001, 0xFF800001, 0x7FBFFFFF}),
        ("f64", {0x7FF8000000000000, 0xFFFFFFFFFFFFFFFF, 0x7FF0000000000001, 0x7FF7FFFFFFFFFFFF}),
        ("f16", {0x7E00, 0xFFFF, 0x7C01, 0xFDFF}),
        ("bf16", {0x7FC0, 0xFFFF, 0x7F81, 0xFFBF}),
        ("e5m2", {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}),
        ("e4m3fn", {0x7F, 0xFF}),
    ],
)
def test_quiet_and_signalling_ones_of_either_sign_come(dtype: str, some: set[int]) -> None:
    found = _words(nans(dtype, Stream(3).words(500)))
    assert some <= found
    assert FORMATS[dtype].precision < 8 or len(found) > 60, "any other payload comes, too"


def test_where_a_function_has_a_number_for_nan_all_are_quiet() -> None:
    """hypot(inf, NaN) is inf, and NaN if the NaN is signalling: a right kernel was called wrong."""
    nan, quiet = nans("f32", Stream(3).words(500), quiet=True), np.uint32(0x400000)
    assert _are_nan(nan).all()
    assert (nan.view(np.uint32) & quiet).all()
    inputs = (Operand("x", "... n"), Operand("z", "... n"))

    def size(x: Any, z: Any) -> Any:
        return {"y": f.hypot(x, z)}

    with unknown_afterwards():
        register(Op(size, inputs=inputs, outputs=(Operand("y", "... n"),)))
        made = islice(chain.from_iterable(batches(Search("size", 2))), 400)
        values = [_first(each.case) for each in made if each.case.inputs["x"].dtype == "f32"]
    words = set[int]().union(*(_words(each[_are_nan(each)]) for each in values))
    assert len(words) > 3
    assert all(word & 0x400000 for word in words)


def test_columns_of_a_signalling_nan_are_repeated_without_a_warning() -> None:
    signalling = np.array([0x7F800001, 0x3F800000], "<u4").view("<f4")
    repeated = repeated_or_cut(given_rows(signalling), 2, 2, columns=True)
    assert _are_nan(repeated).tolist() == [[True, False], [True, False]]


def test_drawn_nans_keep_their_bits_through_a_draw_and_a_file() -> None:
    made = islice(chain.from_iterable(batches(Search("softmax", 2))), 400)
    cases = [each.case for each in made if _are_nan(_first(each.case)).any()]
    assert len(cases) > 15
    bits = {name for case in cases for name in map(hex, _words(_first(case)[_are_nan(_first(case))]))}
    assert len(bits) > 8
    for case in cases:
        again, _ = from_json(json.loads(json.dumps(to_json(case))))
        assert again.inputs["x"].bits == realise(draw_of(case)).inputs["x"].bits == case.inputs["x"].bits
        tensor = case.inputs["x"]
        quiet = numbers(tensor.bits, tensor.dtype, tensor.layout.shape)
        assert (np.isnan(quiet) == _are_nan(_first(case))).all(), "and NumPy has no reason to warn"


def _first(case: Any) -> Any:
    tensor = case.inputs["x"]
    return from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)


def narrowed(x: Any) -> Any:
    return {"y": 1.0 * x}


def same_elements(x: Any) -> Any:
    return {"y": 1.0 * x}


NARROWED = Op(narrowed, inputs=(Operand("x", "... n"),), outputs=(Operand("y", "... n", dtype="bf16"),))
SAME = Op(same_elements, inputs=(Operand("x", "... n"),), outputs=(Operand("y", "... n"),))


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with unknown_afterwards():
        yield


def _by_bits(x: Any) -> Any:
    """Add 0x7fff to the bits and cut: of NaN 0x7f800001 an infinity is left, of 0x7fffffff minus zero."""
    import torch

    words = x.contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    upper = ((words + 0x7FFF + ((words >> 16) & 1)) >> 16) & 0xFFFF
    return torch.where(upper >= 0x8000, upper - 0x10000, upper).to(torch.int16).view(torch.bfloat16)


def _by_bits_with_a_guard(x: Any) -> Any:
    import torch

    return torch.where(torch.isnan(x), torch.tensor(float("nan"), dtype=torch.bfloat16), _by_bits(x))


@pytest.mark.some(1)
@pytest.mark.usefixtures("_here", "unexplained")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_conversion_that_loses_a_nan_is_found(seed: int) -> None:
    with pytest.raises(fuzz.CheckFailed, match="wrong NaN or infinity"):
        fuzz.check(_by_bits, op=NARROWED, arrays="torch", returns=("y",), max_cases=100, seed=seed)


@pytest.mark.whole
@pytest.mark.usefixtures("_here")
def test_a_report_says_which_bits_a_nan_has() -> None:
    with pytest.raises(
        fuzz.CheckFailed, match=r"x = \[+nan \(0x[7f]f[0-9a-f]{6}\)\]+  ->  y\[[0, ]+\] = .*, must be nan"
    ):
        fuzz.check(_by_bits, op=NARROWED, arrays="torch", returns=("y",), max_cases=quarter(100), seed=1)


@pytest.mark.usefixtures("_here")
def test_a_conversion_that_keeps_every_nan_passes() -> None:
    fuzz.check(_by_bits_with_a_guard, op=NARROWED, arrays="torch", returns=("y",), max_cases=quarter(100), seed=1)


class _OtherNans:
    """Returns its input, each time with another sign and payload of what is NaN."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return np.where(_are_nan(x), nans("f32", Stream(self.calls).words(x.size)).reshape(x.shape), x)


@pytest.mark.usefixtures("_here")
def test_which_nan_a_kernel_returns_is_nowhere_held_against_it() -> None:
    fuzz.check(_OtherNans(), op=SAME, arrays="numpy", returns=("y",), max_cases=quarter(100), seed=1)
