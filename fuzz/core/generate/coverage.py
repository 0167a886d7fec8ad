"""Coverage: the labels that a case visits in its op's space, and the ledger of labels that a search has visited."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import combinations

import numpy as np

from fuzz.core.base.case import Layout
from fuzz.core.base.draw import Draw
from fuzz.core.base.feature import Answer, Feature, Kind, Label
from fuzz.core.base.stream import Reals
from fuzz.core.generate.sketch import BLOCKS, ROWS, N
from oracles.dtypes import ITEMSIZE
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS, remembered

Labels = tuple[Label, ...]


class Ledger:
    """A count of the labels of all cases, against a space. Labels outside the space are not coverage gaps."""

    def __init__(self, space: Mapping[Feature, tuple[Answer, ...]]) -> None:
        self.space = space
        self.counts: dict[Feature, Counter[Answer]] = {kind: Counter() for kind in space}
        self._open = {kind: dict.fromkeys(values) for kind, values in space.items() if values}

    def see(self, labels: Iterable[Label]) -> None:
        """Count the labels of one case."""
        for kind, value in labels:
            if kind not in self.counts:
                continue
            self.counts[kind][value] += 1
            waiting = self._open.get(kind)
            if waiting is not None and value in waiting:
                del waiting[value]
                if not waiting:
                    del self._open[kind]

    @property
    def is_open(self) -> bool:
        """Whether a coverage gap is left."""
        return bool(self._open)

    @property
    def size(self) -> int:
        """The number of coverage gaps."""
        return sum(map(len, self._open.values()))

    def lacks(self, label: Label) -> bool:
        """Whether a label is a coverage gap."""
        kind, value = label
        return value in self._open.get(kind, ())

    def gaps(self) -> dict[Feature, list[Answer]]:
        """Return the labels of the space that no case has visited, by kind."""
        return {kind: list(values) for kind, values in self._open.items()}


RELATIONS = ("one is n", "rows are n", "n is a multiple of rows", "rows are a multiple of n", "two are equal")
"""Relations that the extents of a case's first input may have to each other."""
POSITIONS = ("first", "last", "tail", "body")
"""The positions of a placed element in its row. 'tail' means after the last whole block of 64 elements."""


@lru_cache(maxsize=1 << 14)
def length_labels(n: int) -> Labels:
    """Return the labels of a row of n elements: its length, and its tail for each size of block."""
    return ((N, n), *((Feature("tail", operand=block), n % block) for block in BLOCKS if n > block))


def labels_of(draw: Draw, layouts: Mapping[str, Layout]) -> Labels:
    """Return the labels that a case visits by its shapes, layouts and recipes, whatever its values are; see
    `fuzz.core.generate.space`."""
    op = OPS[draw.op]
    main = draw.part(op.main)
    sizes = draw.sizes
    if 0 in (draw.n, draw.rows, *sizes.values()):  # a kernel has nothing to do, whatever else the case is
        none = [N] if draw.n == 0 else [ROWS] if draw.rows == 0 else []
        none += [Feature("extent", dim) for dim, size in sizes.items() if size == 0 and dim != op.row]
        return (Feature("dtype"), main.dtype), *((each, 0) for each in none)
    found: list[Label] = [*length_labels(draw.n), *frame_labels(draw.outer, draw.axis, draw.n)]
    found += sizes_labels(op.name, math.prod(draw.batch), tuple(sizes.items()))
    # The answers are words because 0.0 equals -0.0: whichever came first would name both. What a search draws next
    # depends on these labels.
    found += [(Feature("parameter", name), repr(value)) for name, value in draw.parameters.items()]
    found += _of_presence(draw.op, tuple([part.name for part in draw.parts]))
    alone = True
    for part in draw.parts:
        layout, home = layouts[part.name], part.alias
        alone = alone and home is None
        alias = home if home is not None and (part.name, home) in op.aliases else ""
        stack = part.stack and ("many" if layout.shape[0] > 1 else "one")
        kind = "" if home is not None else part.placement.layout
        alignment = layout.alignment(ITEMSIZE[part.dtype])
        first = () if part is main else (op.main, main.dtype)
        found += _of_part(part.name, part.dtype, first, alignment, kind, part.recipe, stack, alias)
    if alone:
        found.append((Feature("alias"), "none"))
    return tuple(found)


def placed_labels(name: str, recipe: str, values: Reals) -> Labels:
    """Return the labels that an input visits by the positions of the element that its recipe places in each row."""
    return tuple((Feature("recipe", name), (recipe, where)) for where in sorted(_positions(recipe, values)))


@lru_cache(maxsize=1 << 12)
def frame_labels(outer: tuple[int, ...], axis: int, n: int) -> Labels:
    """Return the labels of the first input's extents, and of relations between extents above 1."""
    rows = math.prod(outer)
    found: list[Label] = [(ROWS, rows), (Feature("axis"), (axis, len(outer) + 1))]
    if rows > 1 and n > 1:
        several = [extent for extent in outer if extent > 1]
        holding = (n in outer, rows == n, n > rows and n % rows == 0, rows > n and rows % n == 0,
                   len(set(several)) < len(several))  # fmt: skip
        found += [(Feature("extents"), relation) for relation, holds in zip(RELATIONS, holding, strict=True) if holds]
    return tuple(found)


TILES = (16, 32, 64, 128)
"""The extents of tiles that kernels of contractions use along each dimension."""
STEP = 16
"""Extents are counted by their remainder over this number."""


def together(op: Op) -> str:
    """Return the answer for whole tiles in all tiled dimensions at once."""
    return f"{' '.join(named(op, dim) for dim in op.tiled)} together"


def named(op: Op, dim: str) -> str:
    """Return the answer for whole tiles along one dimension."""
    return op.batch_name if dim == OUTER else dim


@remembered(1 << 12)
def sizes_labels(name: str, batch: int, sizes: tuple[tuple[str, int], ...]) -> Labels:
    """Return the labels of the extents of all dimensions but the row, whose extent is n. `batch` is the product of the
    extents of dimensions without a name."""
    found, op = list[Label](), OPS[name]
    for tile in TILES:
        whole = [dim for dim, size in ((OUTER, batch), *sizes) if size >= tile and (dim != OUTER or dim in op.tiled)]
        found += [(Feature("tile", operand=tile), named(op, dim)) for dim in whole]
        if {*op.tiled} <= {*whole}:
            found.append((Feature("tile", operand=tile), together(op)))
    for dim, size in sizes:
        if dim != op.row:
            found.append((Feature("extent", dim), size))
            if size > STEP:
                found.append((Feature("remainder", dim, operand=STEP), size % STEP))
    equal = Feature("equal extents")
    return (*found, *((equal, (a, b)) for (a, one), (b, two) in combinations(sizes, 2) if one == two > 1))


def said(op: str, kind: Feature) -> str:
    """Return the name of a kind in reports. For an op with several named dimensions the name also says which dimension
    or which input it is about, since n may be the name of another one."""
    known = OPS.get(op)
    if known is None or len(known.named) == 1:
        return kind.label()
    label = kind.label(row=f"extent of {known.row}")
    if kind.kind == "tail":
        return f"{label} along {known.row}"
    return f"{label} of {known.main}" if kind.kind in ("rows", "axis", "rank", "extents") else label


@remembered(1 << 10)
def _of_presence(op: str, names: tuple[str, ...]) -> Labels:
    return tuple((Feature("presence", name), "yes" if name in names else "no") for name in OPS[op].optional)


@lru_cache(maxsize=1 << 15)
def _of_part(
    name: str, dtype: str, first: tuple[str, ...], alignment: int, layout: str, recipe: str, stack: str, alias: str
) -> Labels:
    """Return the labels of one tensor. `first` is the name and dtype of the first input, or () if the tensor is the
    first input itself. An attribute that the tensor lacks is given as ''."""
    found: list[Label] = [(Feature("dtype", name), (dtype, *first)) if first else (Feature("dtype"), dtype)]
    found.append((Feature("alignment", name, operand=dtype), alignment))
    words: tuple[tuple[Kind, str], ...] = ("layout", layout), ("recipe", recipe), ("stack", stack)
    found += [(Feature(what, name), value) for what, value in words if value]
    return (*found, (Feature("alias"), (name, alias))) if alias else tuple(found)


def _positions(recipe: str, values: Reals) -> set[str]:
    """Return the positions, named in `POSITIONS`, at which the recipe placed an element in any row."""
    n = values.shape[1]
    if not values.size:
        return set()
    found = np.abs(values) >= 16 if recipe == "spike" else ~np.isfinite(values)
    columns = found.argmax(axis=1)[found.any(axis=1)]
    body = n - n % 64
    return {"first" if c == 0 else "last" if c == n - 1 else "tail" if c >= body else "body" for c in columns.tolist()}
