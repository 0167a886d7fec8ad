"""Contractions: sums of products along one or several axes, without an array of all products. In float64 they are
products of matrices, which may add in any order and may fuse a product with its addition. In other arithmetics, and if
a number is special, products at some places of the axes are formed and added up at a time. Either way no more is held
than the operands, the results and about `AT_ONCE` products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64

Shape = tuple[int, ...]
Axes = tuple[int, ...]
Places = tuple[slice, ...]
"""Some places along each of some axes."""

AT_ONCE = 1 << 15
"""The number of products formed at once: an array of them is 256 KiB and stays in a processor's own cache."""
SMALL, LARGE = 2.0**-960, 2.0**960
"""Products between these are numbers of float64 to their last bit, and add up to no infinity along any axis."""
_EDGE = 64
"""The edge of blocks in which matrices are multiplied, at most 64^3 products each. OpenBLAS gives larger ones to
threads, which then wait for more work for 20 ms: measured, 39 of 40 ms of CPU time for 128 x 1024 x 128."""


def is_contraction(a: Shape, b: Shape, axes: Axes) -> bool:
    """Return whether arrays of these shapes have too many products, for all to be formed, compared with elements and
    sums."""
    size = math.prod(map(max, a, b))  # a tenth of the time of `np.broadcast_shapes`
    return size > AT_ONCE and size > max(math.prod(a), math.prod(b)) and any(max(a[at], b[at]) > 1 for at in axes)


def spans(shape: Shape, axes: Axes) -> Sequence[Places]:
    """Return parts along axes of an array of this shape, each of about `AT_ONCE` elements or one place; at least
    one."""
    axis, *more = axes
    length = max(shape[axis], 1)
    places = max(1, AT_ONCE // max(1, math.prod(shape) // length))
    own = [slice(start, start + places) for start in range(0, length, places)]
    if places > 1 or not more:
        return [(each, *(slice(None),) * len(more)) for each in own]
    others = spans((*shape[:axis], 1, *shape[axis + 1 :]), tuple(more))
    return [(each, *other) for each in own for other in others]


def part(array: Any, axes: Axes, places: Places) -> Any:
    """Return these places of an array, or of anything that is sliced like one, along axes; all of it along those where
    it has one element."""
    for axis, each in zip(axes, places, strict=True):
        array = array if array.shape[axis] == 1 else array[(*(slice(None),) * axis, each)]
    return array


def extremes(values: F64) -> tuple[float, float]:
    """Return the least magnitude that is not zero, and the largest: infinite or NaN if there are such values."""
    sizes = np.abs(values)
    return float(np.min(sizes, initial=np.inf, where=sizes != 0)), float(np.max(sizes, initial=0.0))


@dataclass(frozen=True, eq=False)
class Matrices:
    """Two arrays as stacks of matrices whose rows are multiplied with each other."""

    left: F64
    """Shape (stack, rows, length)."""
    right: F64
    """Shape (stack, columns, length)."""
    axes: Sequence[int]
    """The axes of the arrays in the order of these matrices, the summed ones last."""
    over: Axes
    shape: Shape
    """The shape of an array of all products."""

    @staticmethod
    def of(a: F64, b: F64, over: Axes) -> Matrices:
        """Return arrays that are multiplied along axes, along which one of them may have one element."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        each = [at for at in range(len(shape)) if at not in over]
        rows = [at for at in each if b.shape[at] == 1 < a.shape[at]]
        columns = [at for at in each if a.shape[at] == 1 < b.shape[at]]
        stack = [at for at in each if at not in rows and at not in columns]

        def stacked(array: F64, own: Sequence[int], others: Sequence[int]) -> F64:
            wide = np.broadcast_to(array, [1 if at in others else size for at, size in enumerate(shape)])
            sizes = [math.prod(shape[at] for at in axes) for axes in (stack, own, over)]
            return np.ascontiguousarray(wide.transpose(*stack, *own, *over, *others).reshape(sizes))

        axes = [*stack, *rows, *columns, *over]
        return Matrices(stacked(a, rows, columns), stacked(b, columns, rows), axes, over, shape)

    def product(self) -> F64:
        """Return the sums of products, shape (stack, rows, columns)."""
        (stack, rows, length), columns = self.left.shape, self.right.shape[1]
        found, right = np.zeros((stack, rows, columns)), self.right.swapaxes(1, 2)
        for i in range(0, rows, _EDGE):
            for j in range(0, columns, _EDGE):
                block = found[:, i : i + _EDGE, j : j + _EDGE]
                for k in range(0, length, _EDGE):
                    block += self.left[:, i : i + _EDGE, k : k + _EDGE] @ right[:, k : k + _EDGE, j : j + _EDGE]
        return found

    def products(self) -> Iterator[tuple[tuple[int, slice, slice], F64]]:
        """Yield about `AT_ONCE` products at a time, (rows, columns, length), with their place in (stack, rows,
        columns)."""
        (stack, rows, length), columns = self.left.shape, self.right.shape[1]
        wide = min(columns, max(1, AT_ONCE // max(length, 1)))
        high = max(1, AT_ONCE // max(wide * length, 1))
        for at in range(stack):
            for i in range(0, rows, high):
                for j in range(0, columns, wide):
                    place = at, slice(i, i + high), slice(j, j + wide)
                    yield place, self.left[at, place[1], None, :] * self.right[at, None, place[2], :]

    def arranged(self, found: NDArray[Any]) -> NDArray[Any]:
        """Return values for each sum, (stack, rows, columns), with the arrays' axes; summed axes have one element."""
        sizes = [1 if at in self.over else self.shape[at] for at in self.axes]
        return found.reshape(sizes).transpose(np.argsort(self.axes))


def contracted(a: F64, b: F64, axes: Axes) -> F64:
    """Return the sums of a * b along axes, which are kept; one of the arrays may have one element there.

    The order is any: if nothing underflows, each of n terms is within n 2^-53 / (1 - n 2^-53) of its sum of magnitudes
    (Higham 2002, section 3.1). A zero is +0, as in NumPy's sums.
    """
    if len(axes) > 1:  # dimensions of one operand alone are added up first
        a, b = (
            np.add.reduce(each, tuple(at for at in axes if other.shape[at] == 1), keepdims=True)
            for each, other in ((a, b), (b, a))
        )
    matrices = Matrices.of(a, b, axes)
    if 1 in (matrices.left.shape[1], matrices.right.shape[1]):  # a matrix times a vector
        return np.asarray(np.add.reduce(a * b, axes, keepdims=True))
    return matrices.arranged(matrices.product())
