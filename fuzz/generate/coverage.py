"""Coverage: what cases visit of their op's space, and the ledger of what a search has visited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from fuzz.base.case import ITEMSIZE, Output, Tensor
from fuzz.base.draw import Draw
from fuzz.base.op import OPS
from fuzz.base.stream import Reals
from fuzz.generate.menus import PLACED
from fuzz.generate.sketch import BLOCKS

Label = tuple[str, str]
"""A kind, such as 'tail of 48', and one of its values, such as '17'."""


class Ledger:
    """Counts labels against a space. Values outside the space are counted too, but are nobody's coverage gap."""

    def __init__(self, space: Mapping[str, tuple[str, ...]]) -> None:
        self.space = space
        self.counts: dict[str, Counter[str]] = {kind: Counter() for kind in space}
        self._open = {kind: dict.fromkeys(values) for kind, values in space.items() if values}

    def see(self, labels: Iterable[Label]) -> None:
        """Count one case."""
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
        """Whether there is a coverage gap."""
        return bool(self._open)

    @property
    def size(self) -> int:
        """How many coverage gaps there are."""
        return sum(map(len, self._open.values()))

    def lacks(self, label: Label) -> bool:
        """Whether this is a coverage gap."""
        kind, value = label
        return value in self._open.get(kind, ())

    def gaps(self) -> dict[str, list[str]]:
        """Labels of the space that no case has visited, by kind."""
        return {kind: list(values) for kind, values in self._open.items()}


POSITIONS = ("first", "last", "tail", "body")
"""The positions of a placed element in its row; 'tail' is what 64-element blocks leave over."""


def length_labels(n: int) -> Iterator[Label]:
    """What rows of n elements visit by their length."""
    yield "n", str(n)
    yield from ((f"tail of {block}", str(n % block)) for block in BLOCKS if n > block)


def labels_of(draw: Draw, tensors: Mapping[str, Tensor | Output], x: Reals) -> Iterator[Label]:
    """What the case of `tensors` visits; see `fuzz.generate.space`. `x` are its rows."""
    dtype, op = draw.part("x").dtype, OPS[draw.op]
    yield "dtype", dtype
    if 0 in (draw.n, draw.rows):  # a kernel has nothing to do, whatever else the case is
        yield ("n", "0") if draw.n == 0 else ("rows", "0")
        return
    yield from length_labels(draw.n)
    yield "rows", str(draw.rows)
    yield "axis", f"{draw.axis} of rank {draw.rank}"
    yield "eps", repr(draw.eps)
    yield "offset", repr(draw.offset)
    for operand in op.operands:
        if operand.optional:
            yield operand.name, "yes" if operand.name in tensors else "no"
    for part in draw.parts:
        if part.name != "x":
            yield f"{part.name} dtype", f"{part.dtype} for x {dtype}"
        yield f"{part.name} alignment {part.dtype}", str(tensors[part.name].layout.alignment(ITEMSIZE[part.dtype]))
        if part.alias is None:
            yield f"{part.name} layout", part.place.layout
        if part.recipe:
            yield f"{part.name} recipe", part.recipe
        if part.stack:
            yield f"{part.name} stack", "many" if tensors[part.name].layout.shape[0] > 1 else "one"
        if (part.name, part.alias) in op.aliases:
            yield "alias", f"{part.name} in {part.alias}"
    if not any(part.alias for part in draw.parts):
        yield "alias", "none"
    recipe = draw.part("x").recipe
    if recipe in PLACED:
        yield from (("x recipe", f"{recipe} {where}") for where in sorted(_positions(recipe, x)))


def _positions(recipe: str, x: Reals) -> set[str]:
    """Where in their rows the placed elements lie."""
    n = x.shape[1]
    if not x.size:
        return set()
    found = np.abs(x) >= 16 if recipe == "spike" else ~np.isfinite(x)
    columns = found.argmax(axis=1)[found.any(axis=1)]
    body = n - n % 64
    return {"first" if c == 0 else "last" if c == n - 1 else "tail" if c >= body else "body" for c in columns.tolist()}
