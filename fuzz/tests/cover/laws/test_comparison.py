"""Zero tolerance, but for the payload of a NaN."""

from __future__ import annotations

import numpy as np
import pytest

from fuzz.core.base.case import Output, contiguous
from fuzz.core.laws.law import first_difference

OUTPUTS = {"y": Output("f32", contiguous((2, 3)))}


def _bytes(*words: int) -> dict[str, bytes]:
    return {"y": np.array([*words, *[0x3F800000] * (6 - len(words))], "<u4").tobytes()}


@pytest.mark.parametrize(
    ("one", "other"), [(0x7FC00000, 0xFFC00001), (0x7F800001, 0x7FC00000), (0x3F000000, 0x3F000000)]
)
def test_a_nan_equals_any_nan(one: int, other: int) -> None:
    assert first_difference(OUTPUTS, _bytes(one), _bytes(other)) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [(0x00000000, 0x80000000), (0x7F800000, 0x7FC00000), (0x7F800000, 0xFF800000), (0x3F800000, 0x3F800001)],
)
def test_everything_else_is_compared_bit_for_bit(one: int, other: int) -> None:
    assert first_difference(OUTPUTS, _bytes(one), _bytes(other)) is not None


def test_a_difference_says_where_and_shows_both_sides_in_hex() -> None:
    expected, got = _bytes(), _bytes(0x3F800000, 0x3F800000, 0x3F800000, 0x3F800000, 0x3F000000, 0x3F800001)
    assert str(first_difference(OUTPUTS, expected, got)) == (
        "2 of 6 elements of y differ, first y[1, 1] of the twin: got 0.5 (0x3f000000), "
        "expected 1.0 (0x3f800000) from the case itself"
    )
