"""Layouts: no two elements share memory, gaps are where they should be, every alignment is reachable."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.core.base.case import Layout, contiguous
from fuzz.core.generate.layouts import (
    LAYOUT_CLASSES,
    OVERLAPPING,
    classes_of,
    further,
    lay_out,
    layout_class,
    nearer,
)

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)


def _offsets(layout: Layout) -> list[int]:
    ranges = [range(extent) for extent in layout.shape]
    return [sum(i * s for i, s in zip(index, layout.strides, strict=True)) for index in itertools.product(*ranges)]


WRITABLE = [name for name in LAYOUT_CLASSES if name not in OVERLAPPING]


@given(st.sampled_from(WRITABLE), SHAPES, st.integers(1, 19), st.data())
def test_no_two_elements_share_memory_and_the_extent_is_exact(
    name: str, shape: tuple[int, ...], spread: int, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    layout = lay_out(name, shape, axis, spread, "after", 0)
    offsets = _offsets(layout)
    assert len(set(offsets)) == len(offsets)
    assert min(offsets) == layout.lowest
    assert max(offsets) - min(offsets) + 1 == layout.extent


def test_pitched_rows_have_a_gap_of_exactly_the_spread() -> None:
    assert lay_out("pitched", (3, 10), 1, 7, "after", 0).strides == (17, 1)


@pytest.mark.parametrize(("spread", "step"), [(1, 2), (2, 3), (3, 2)])
def test_column_steps_are_two_or_three(spread: int, step: int) -> None:
    assert lay_out("column_step", (3, 10), 1, spread, "after", 0).strides == (10 * step, step)


def test_transposed_rows_are_not_the_fastest_axis() -> None:
    assert lay_out("transposed", (3, 10), 1, 1, "after", 0).strides == (1, 3)


def test_reversed_axes_take_turns() -> None:
    turns = {lay_out("reversed", (3, 10), 1, spread, "after", 0).strides for spread in (1, 2, 3)}
    assert turns == {(10, -1), (-10, 1), (-10, -1)}
    assert lay_out("reversed", (10,), 0, 1, "after", 0).strides == (-1,)


def test_padded_axes_do_not_collapse() -> None:
    outer, inner, row = lay_out("padded", (2, 3, 5), 2, 4, "after", 0).strides
    assert row == 1
    assert inner > 5
    assert outer > 3 * inner


def test_expanded_layouts_share_memory() -> None:
    assert lay_out("expanded", (2, 3, 5), 2, 1, "after", 0).strides == (0, 0, 1)
    assert lay_out("expanded_row", (2, 3, 5), 2, 1, "after", 0).strides == (3, 1, 0)
    assert lay_out("expanded_all", (2, 3, 5), 2, 1, "after", 0).strides == (0, 0, 0)
    assert lay_out("expanded", (2, 3, 5), 2, 1, "after", 0).extent == 5


def test_one_matrix_for_a_whole_batch_has_a_stride_of_0_along_one_axis() -> None:
    assert lay_out("broadcast", (2, 3, 5), 2, 1, "after", 0).strides == (0, 5, 1)
    assert lay_out("broadcast", (2, 3, 5), 2, 3, "after", 0).strides == (5, 0, 1)
    assert lay_out("broadcast", (1, 3, 5), 2, 1, "after", 0).strides == (5, 0, 1), "of one matrix its rows are one"
    for strides in ((0, 5, 1), (5, 0, 1)):
        assert layout_class(Layout((2, 3, 5), strides), 2) == "broadcast"
    assert layout_class(Layout((2, 3, 5), (0, 0, 1)), 2) == "expanded"
    assert {*classes_of(3)} - {*classes_of(2)} == {"broadcast", "permuted", "transposed_each"}


def test_axes_of_a_batch_are_swapped_and_its_matrices_transposed() -> None:
    assert lay_out("permuted", (2, 3, 5), 2, 1, "after", 0).strides == (5, 10, 1)
    turns = {lay_out("permuted", (2, 4, 3, 5), 3, spread, "after", 0).strides for spread in (1, 2, 3)}
    assert turns == {(60, 5, 20, 1), (20, 5, 40, 1)}, "tokens beside heads, or furthest apart"
    assert lay_out("transposed_each", (2, 3, 5), 2, 1, "after", 0).strides == (15, 1, 3)
    assert lay_out("transposed_each", (2, 3, 5), 1, 1, "after", 0).strides == (1, 2, 6)
    for name in ("permuted", "transposed_each", "transposed"):
        assert layout_class(lay_out(name, (2, 3, 5), 2, 1, "after", 0), 2) == name
    for name in ("permuted", "transposed_each"):
        assert layout_class(lay_out(name, (3, 5), 1, 1, "after", 0), 1) in ("contiguous", "transposed")


def test_contiguous_is_c_order_whatever_the_axis() -> None:
    for axis in range(3):
        assert lay_out("contiguous", (2, 3, 4), axis, 1, "after", 0).strides == (12, 4, 1)


@pytest.mark.parametrize("guard", ["after", "before"])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_every_alignment_modulo_64_bytes_is_reachable(guard: str, itemsize: int) -> None:
    seen = {
        contiguous((3, 7), guard, offset).alignment(itemsize)  # type: ignore[arg-type]
        for offset in range(64 // itemsize)
    }
    assert len(seen) == 64 // itemsize


@pytest.mark.parametrize("strides", [(2**31, 16, 1), (-(2**32), 16, 1), (16, 2**31, 1), (2**30 - 4, 16, 1)])
def test_one_far_axis_is_brought_nearer(strides: tuple[int, ...]) -> None:
    far = Layout((3, 4, 8), strides)
    near = nearer(far)
    assert near is not None
    assert near.extent <= 2**31 < far.extent
    changed = [(one, other) for one, other in zip(strides, near.strides, strict=True) if one != other]
    assert [one * other > 0 for one, other in changed] == [True], "one stride, in the same direction"
    assert len({*_offsets(near)}) == near.size


def test_two_far_axes_and_near_ones_stay() -> None:
    """With two far axes the stride of one would become negative, which is another layout."""
    for strides in ((2**32, 2**31, 1), (2**31, -(2**32), 1), (3 * 2**30, 2**30, 1), (2**30, 2**30 - 8, 1)):
        assert nearer(Layout((3, 4, 8), strides)) is None, strides
    assert nearer(contiguous((3, 4, 8))) is nearer(Layout((), ())) is nearer(Layout((0, 3), (2**40, 1))) is None
    apart = further(contiguous((3, 4, 8)))
    assert apart is not None
    assert apart.extent > 2**31
    assert nearer(apart) is not None
