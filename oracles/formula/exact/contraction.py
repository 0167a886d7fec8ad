"""Contractions: sums of products along one or several axes, without an array of all products. In float64 they are
calculated as products of matrices, which may add in any order and may fuse a product with its addition. In other
arithmetics, and if a result is not finite, the products at some places of the axes are formed and added up at a time.
Both ways hold the operands, the results and about `AT_ONCE` products in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64

Shape = tuple[int, ...]
Axes = tuple[int, ...]
Places = tuple[slice, ...]
"""One slice for each of some axes."""

AT_ONCE = 1 << 15
"""The number of products that are formed at once: 256 KiB of float64 fit into the cache of a processor core."""
SMALL, LARGE = 2.0**-960, 2.0**960
"""Bounds of magnitudes: products between them are normal numbers of float64, and their sums do not overflow."""
_EDGE = 64
"""The edge of blocks in which matrices are multiplied, at most 64^3 products each. OpenBLAS spreads larger products
over threads, which then wait 20 ms for more work: measured, 39 of 40 ms of CPU time for 128 x 1024 x 128."""
on_device: Callable[[F64, F64], F64 | None] | None = None
"""A function that may multiply two stacks of matrices in float64 elsewhere, such as on a GPU. It returns the products,
or None if they are to be calculated here."""


def is_contraction(a: Shape, b: Shape, axes: Axes) -> bool:
    """Whether arrays of these shapes have too many products along axes to form them all at once: more than `AT_ONCE`,
    and more than either array has elements."""
    size = math.prod(map(max, a, b))  # a tenth of the time of `np.broadcast_shapes`
    return size > AT_ONCE and size > max(math.prod(a), math.prod(b)) and any(max(a[at], b[at]) > 1 for at in axes)


def spans(shape: Shape, axes: Axes) -> Sequence[Places]:
    """Return slices along axes that split an array of this shape into parts of about `AT_ONCE` elements. A part has at
    least one place, and there is at least one part."""
    axis, *more = axes
    length = max(shape[axis], 1)
    places = max(1, AT_ONCE // max(1, math.prod(shape) // length))
    own = [slice(start, start + places) for start in range(0, length, places)]
    if places > 1 or not more:
        return [(each, *(slice(None),) * len(more)) for each in own]
    others = spans((*shape[:axis], 1, *shape[axis + 1 :]), tuple(more))
    return [(each, *other) for each in own for other in others]


def part(array: Any, axes: Axes, places: Places) -> Any:
    """Return the slice `places` along axes of an array, or of an object that is sliced like one. An axis with one
    element is kept whole."""
    for axis, each in zip(axes, places, strict=True):
        array = array if array.shape[axis] == 1 else array[(*(slice(None),) * axis, each)]
    return array


def extremes(values: F64) -> tuple[float, float]:
    """Return the least nonzero magnitude and the largest magnitude; they may be infinite or NaN if values are."""
    sizes = np.abs(values)
    return float(np.min(sizes, initial=np.inf, where=sizes != 0)), float(np.max(sizes, initial=0.0))


@dataclass(frozen=True, eq=False)
class Matrices:
    """Two arrays as stacks of matrices. Each row of a left matrix is multiplied with each row of the right matrix."""

    left: F64
    """Shape (stack, rows, length)."""
    right: F64
    """Shape (stack, columns, length)."""
    axes: Sequence[int]
    """The axes of the original arrays in the order in which the matrices hold them, the summed axes last."""
    over: Axes
    shape: Shape
    """The shape that an array of all products would have."""

    @staticmethod
    def of(a: F64, b: F64, over: Axes) -> Matrices:
        """Return the matrices of arrays whose products are summed `over` axes, where either may have one element."""
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
        if on_device is not None and (made := on_device(self.left, self.right)) is not None:
            return made
        (stack, rows, length), columns = self.left.shape, self.right.shape[1]
        found, right = np.zeros((stack, rows, columns)), self.right.swapaxes(1, 2)
        for i in range(0, rows, _EDGE):
            for j in range(0, columns, _EDGE):
                block = found[:, i : i + _EDGE, j : j + _EDGE]
                for k in range(0, length, _EDGE):
                    block += self.left[:, i : i + _EDGE, k : k + _EDGE] @ right[:, k : k + _EDGE, j : j + _EDGE]
        return found

    def products(self) -> Iterator[tuple[tuple[int, slice, slice], F64]]:
        """Yield blocks of about `AT_ONCE` products, shape (rows, columns, length), each after its index into (stack,
        rows, columns)."""
        (stack, rows, length), columns = self.left.shape, self.right.shape[1]
        wide = min(columns, max(1, AT_ONCE // max(length, 1)))
        high = max(1, AT_ONCE // max(wide * length, 1))
        for at in range(stack):
            for i in range(0, rows, high):
                for j in range(0, columns, wide):
                    place = at, slice(i, i + high), slice(j, j + wide)
                    yield place, self.left[at, place[1], None, :] * self.right[at, None, place[2], :]

    def arranged(self, found: NDArray[Any]) -> NDArray[Any]:
        """Return an array (stack, rows, columns) with the axes of the original arrays; summed axes have one element."""
        sizes = [1 if at in self.over else self.shape[at] for at in self.axes]
        return found.reshape(sizes).transpose(np.argsort(self.axes))


def contracted(a: F64, b: F64, axes: Axes) -> F64:
    """Return the sums of a * b over axes, which are kept. Along those axes either array may have one element.

    The order of the additions is open. If nothing underflows, a sum of n products has an error of at most n 2^-53 / (1
    - n 2^-53) times the sum of their magnitudes (Higham 2002, section 3.1). A zero is +0, as in NumPy's sums.
    """
    if len(axes) > 1:  # an axis that one operand lacks is summed in the other first
        a, b = (
            np.add.reduce(each, tuple(at for at in axes if other.shape[at] == 1), keepdims=True)
            for each, other in ((a, b), (b, a))
        )
    matrices = Matrices.of(a, b, axes)
    if 1 in (matrices.left.shape[1], matrices.right.shape[1]):  # a matrix times a vector
        return np.asarray(np.add.reduce(a * b, axes, keepdims=True))
    return matrices.arranged(matrices.product())
