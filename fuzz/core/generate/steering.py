"""From coverage gaps to a draw. The draw always fills the first gap, and others if they are compatible with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, TypeVar

from fuzz.core.base.capability import Capability
from fuzz.core.base.dispatch import SMALL
from fuzz.core.base.draw import Draw
from fuzz.core.base.feature import Feature, Kind, Label
from fuzz.core.base.stream import Dice
from fuzz.core.generate.capabilities import dtype_pairs, typings
from fuzz.core.generate.coverage import STEP, named
from fuzz.core.generate.dims import common, has_room, sizes_of, some_extents, usual_rank
from fuzz.core.generate.drawing import draw_from, zeroed
from fuzz.core.generate.gaps import ALONE, Gaps
from fuzz.core.generate.sketch import (
    ENOUGH_ROWS,
    LARGEST_CASE,
    MANY_ROWS,
    ROWS,
    SHORT,
    USUAL_CASE,
    N,
    Sketch,
    first_recipes,
    fitting,
    fitting_n,
)
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS, remembered

_T = TypeVar("_T")
Wish = dict[Feature, Any]
"""The features that fill coverage gaps: those of `drawing.Wish`, and n, rows, the axis, extents, parameters."""

_LONG = 300
"""The longest row that is made to fill a coverage gap."""
LARGEST = 4096
"""The largest number of elements of a tensor whose size is asked for by several gaps. Shards do not know what others
have visited, so each of them asks for many rows and for long ones."""
_ROWS = SMALL.rows
_GRID_ROWS = 6
"""The number of rows of a tensor whose layout a gap asks for: 2 by 3, or fewer if 6 rows would not be small."""
_AXIS, _USUAL_AXIS = Feature("axis"), (1, 2)
_OF_SHAPE = frozenset((N, ROWS, _AXIS))
_NEARBY = 8
"""The largest change of a row length, in steps, to fill a coverage gap."""
_EQUAL = 15
"""The number of extents to choose from if two dimensions should be equal."""
_TAILS = 5
"""The number of row lengths to choose from for a wanted tail."""


def steer(
    sketch: Sketch, capability: Capability, gaps: Gaps, wanted: Sequence[Label], turn: int, dice: Dice | None = None
) -> Draw:
    """Return a draw for `capability` that fills the first of the `wanted` gaps, and others that are compatible with it.
    `sketch` and `turn` decide what the gaps leave open. Gaps that depend on values (the position of a spike) or on
    shared memory ("memory") are not filled by the draw itself, which only makes them possible."""
    wish: Wish = {}
    asking = _Asking(capability, OPS[capability.op], gaps, wish, turn)
    for gap in wanted if wanted[0][0] != ALONE else wanted[:1]:
        if N in wish and gap[0].kind in ("n", "tail"):
            continue  # the length of rows is decided already
        asked = asking.asked(*gap)
        if asked is not None and _goes_with(asked, wish):
            wish.update(asked)
    return draw_from(_shaped(sketch, capability, wish), wish, dice)


def steer_as_shaped(
    sketch: Sketch, capability: Capability, gaps: Gaps, wanted: Sequence[Label], turn: int, dice: Dice
) -> Draw:
    """Return a draw with the sketch's own shape that fills the first of the `wanted` gaps, and others that are
    compatible with it. The gaps' own wishes for a shape are ignored."""
    wish: Wish = {}
    asking = _Asking(capability, OPS[capability.op], gaps, wish, turn, sizes_of(sketch))
    for gap in wanted:
        asked = {key: value for key, value in (asking.asked(*gap) or {}).items() if key not in _OF_SHAPE}
        if all(wish.get(key, value) == value for key, value in asked.items()) and has_room(sketch, wish, asked):
            wish.update(asked)
    return draw_from(_valued(sketch, capability, wish), wish, dice)


def _goes_with(asked: Wish, wish: Wish) -> bool:
    """Whether new wishes contradict no existing wish, and the case is cheap to judge with both."""
    for key, value in asked.items():
        if wish.get(key, value) != value:
            return False
    if not wish or not any(key.kind in ("n", "rows", "extent") for key in asked):
        return True
    both = {**wish, **asked}
    sizes = [size for key, size in both.items() if key.kind == "extent"]
    if sizes:
        sizes += [both.get(key, 1) for key in (N, ROWS)]
        return bool(math.prod(map(max, sizes, repeat(1))) <= LARGEST)
    rows = both.get(ROWS, 1)
    return bool(rows == 1 or both.get(N, 0) * rows <= LARGEST)


def nudged(sketch: Sketch, gaps: Gaps) -> Sketch:
    """Return the sketch with the nearby row length that fills most gaps of the turn's part."""
    step = sketch.capability.step(OPS[sketch.capability.op].row)
    nearby = [sketch.n, *(sketch.n + sign * far * step for far in range(1, _NEARBY + 1) for sign in (1, -1))]
    fitting = [n for n in nearby if n > 0 and fitting_n(sketch.capability, n) == n]
    n = max(fitting, key=lambda n: gaps.filled(n)[0], default=sketch.n)
    return sketch if n == sketch.n else replace(sketch, n=n)


def _shaped(sketch: Sketch, capability: Capability, wish: Wish) -> Sketch:
    """Return the sketch with the wished size, axis, parameters and recipe of the first input, and plain otherwise."""
    usual = _USUAL_AXIS if sketch.axis == sketch.rank - 1 else (sketch.axis, sketch.rank)
    axis, rank = wish.get(_AXIS, usual)
    few = ROWS in wish or any(key.kind == "layout" for key in wish)
    # Longer rows count only for their length, see `fuzz.core.base.dispatch.SMALL`, so the gap would stay open.
    longest = _LONG if few else SMALL.elements
    n = wish[N] if N in wish else fitting_n(capability, max(2, min(sketch.n, longest)))
    enough = ENOUGH_ROWS if n <= USUAL_CASE else 1
    rows = max(1, min(sketch.rows, _ROWS, max(enough, USUAL_CASE // max(n, 1))))
    return replace(
        _valued(sketch, capability, wish),
        n=n,
        rows=wish.get(ROWS, 1 if rank == 1 else rows),
        rank=rank,
        axis=axis,
        outer=(),
    )


def _valued(sketch: Sketch, capability: Capability, wish: Wish) -> Sketch:
    """Return the sketch with the wished parameters and recipe of the first input."""
    op = OPS[capability.op]
    wished = {key.subject: float(value) for key, value in wish.items() if key.kind == "parameter"}
    recipe = wish.get(Feature("recipe", op.main), sketch.recipe)
    if any(wished.get(name) for name in zeroed(capability, recipe)):
        recipe = next(name for name in first_recipes(op.name) if not zeroed(capability, name))
    parameters = {**sketch.parameters, **wished}
    return replace(sketch, capability=capability, odd=False, parameters=parameters, recipe=recipe)


@dataclass(frozen=True)
class _Asking:
    """Makes the wishes that fill coverage gaps, besides existing ones. Methods return None if none can fill the gap."""

    capability: Capability
    op: Op
    gaps: Gaps
    wish: Wish
    """The wishes so far, to which those that are made are added if they agree."""
    turn: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The extents of dimensions that stay as they are unless a wish changes them."""

    def asked(self, kind: Feature, answer: Any) -> Wish | None:
        """Return the wish that fills one gap."""
        return _WAYS[kind.kind](self, kind, answer)

    def pick(self, some: Sequence[_T]) -> _T:
        """Return one of the items `some`, a different one each turn."""
        return some[self.turn % len(some)]

    def of_size(self, kind: Feature, size: int) -> Wish | None:
        """Return the wish for an extent: n, the number of rows, or a named dimension."""
        if size == 0 and self.wish:
            return None  # a case without elements visits no other label
        if kind == ROWS and size in MANY_ROWS and N not in self.wish:
            return self.of_many_rows(size)
        return {kind: size}

    def of_many_rows(self, rows: int) -> Wish:
        """Return the wish for this number of rows, with a short length."""
        return {ROWS: rows, N: fitting_n(self.capability, 1 + self.turn % SHORT)}

    def of_tail(self, kind: Feature, residue: int) -> Wish | None:
        """Return the wish for a row that is longer than the block and leaves `residue` elements over. Of several
        lengths, choose the one that fills most other gaps."""
        capability, block, row = self.capability, int(kind.operand), self.op.row
        step, room = capability.step(row), LARGEST_CASE // max(1, self.wish.get(ROWS, 1))
        most = min(max(block * (step + _TAILS), step), max(2 * block, room))
        most = min(most, capability.able.max.get(row, most))
        fitting = [n for n in range(block + residue, most + 1, block) if n > block and n % step == 0][:_TAILS]
        if not fitting:
            return None
        return {N: max(fitting, key=lambda n: (self.gaps.filled(n), (n // block + self.turn) % _TAILS))}

    def of_rest(self, kind: Feature, rest: int) -> Wish:
        """Return the wish for an extent of a named dimension with this remainder."""
        leaving = [n for n in some_extents(self.capability, kind.subject) if n > STEP and n % STEP == rest]
        return {Feature("extent", kind.subject): self.pick(leaving)}

    def of_equal(self, _: Feature, both: tuple[str, str]) -> Wish | None:
        """Return the wish for two equal extents."""
        keys, sizes = [_key(self.op, dim) for dim in both], common(self.capability, both)[:_EQUAL]
        known = {self.wish[key] for key in keys if key in self.wish} or {self.pick(sizes)}
        return dict.fromkeys(keys, known.pop()) if len(known) == 1 else None

    def of_tiles(self, kind: Feature, which: str) -> Wish:
        """Return the wish for whole tiles along one dimension or along all. In every second turn, extents have one
        element more, if the kernel takes that."""
        op, tile = self.op, int(kind.operand)
        dims = [dim for dim in (OUTER, *op.named) if which == named(op, dim)] or op.tiled
        over = (0, self.turn % 2)
        asked = {_key(op, dim): max(fitting(self.capability, dim, tile + more) for more in over) for dim in dims}
        return asked if asked.keys() != {ROWS} or N in self.wish else self.of_many_rows(asked[ROWS])

    def of_recipe(self, kind: Feature, recipe: str | tuple[str, str]) -> Wish:
        """Return the wish for an input with a recipe. If the recipe has to place an element in the tail of the first
        input's rows, the wish includes a length with a tail."""
        if kind.subject != self.op.main:
            return {**self.alone(kind.subject), kind: recipe}
        name = recipe if isinstance(recipe, str) else recipe[0]
        zeros = {Feature("parameter", each): repr(0.0) for each in zeroed(self.capability, name)}
        asked = {kind: name, **zeros}
        if name == recipe or self.wish.get(N, 0) % 64 > 1:
            return asked
        return {**asked, N: fitting_n(self.capability, 66 + self.turn % 62)}

    def of_grid(self, kind: Feature, answer: str) -> Wish:
        """Return the wish for a layout or a stack. It includes several axes of several elements, without which classes
        cannot be told apart."""
        op, is_layout, axes = self.op, kind.kind == "layout", self.op.operand(kind.subject).axes
        rows = min(_GRID_ROWS, LARGEST // max(1, self.wish.get(N, fitting_n(self.capability, 1)))) // 2 * 2
        rank = usual_rank(op)
        grid: Wish = {} if axes == (op.row,) and is_layout else {_AXIS: (rank - 1, rank), ROWS: max(2, rows)}
        if len(op.inner) > 1:  # with further dimensions, these rows would lie along one axis
            grid.pop(ROWS, None)
        named = [dim for dim in op.named if dim in axes and is_layout] if len(op.named) > 1 else []
        extents = {Feature("extent", dim): dim for dim in named if dim != op.row and dim not in op.fixed}
        # Extents of several elements stay: to ask for 3 would contradict other wishes, and pairs lost 2 of 3 layouts.
        grid.update({key: 3 for key, dim in extents.items() if self.wish.get(key, self.sizes.get(dim, 1)) <= 1})
        if op.row in named:
            grid.setdefault(N, fitting_n(self.capability, 3 + self.turn % _TAILS))
        return {**self.alone(kind.subject), **grid, kind: answer}

    def of_dtype(self, kind: Feature, answer: str | tuple[str, str, str]) -> Wish:
        if isinstance(answer, str):
            return {Feature("dtype", self.op.main): answer}
        return {**self.alone(kind.subject), **self.typed(kind.subject, answer[0], answer[2])}

    def of_alignment(self, kind: Feature, byte: int) -> Wish | None:
        name, dtype, layout = kind.subject, str(kind.operand), Feature("layout", kind.subject)
        if self.wish.get(layout, "contiguous") != "contiguous":
            return None
        wished: Any = self.wish.get(Feature("dtype", self.op.main))
        fitting = _mains(self.capability, name, dtype)
        typed = self.typed(name, dtype, wished if wished in fitting else self.pick(fitting))
        return {**self.alone(name), **typed, Feature("byte", name): byte, layout: "contiguous"}

    def of_alias(self, _: Feature, answer: str | tuple[str, str]) -> Wish:
        """Return the wish for an output in the memory of an input. Both are present with the same dtype, and no
        elements of the input share memory."""
        if isinstance(answer, str):
            return self.nowhere()
        return {**self.nowhere(), **self.of_one_dtype(*answer), Feature("alias", answer[0]): answer[1]}

    def of_memory(self, _: Feature, answer: tuple[str, str, str]) -> Wish | None:
        """Return the wish for tensors that share memory: rows long enough to overlap, and no output in place."""
        if self.wish:
            return None
        n = fitting_n(self.capability, 5 + self.turn % 60)
        return {**self.nowhere(), **self.of_one_dtype(answer[0], answer[2]), N: n}

    def nowhere(self) -> Wish:
        """Return the wish that each output has its own memory."""
        return {Feature("alias", output.name): "none" for output in self.op.outputs}

    def there(self, name: str) -> Wish:
        """Return the wish that a tensor is present, and with it the tensors without which it has no meaning."""
        return dict.fromkeys(_needed(self.op.name, name), "yes")

    def alone(self, name: str) -> Wish:
        """Return the wish that a tensor is present. If it is an output, it is in no input's memory, since it would have
        that input's dtype and layout."""
        return {**self.there(name), **({} if self.op.is_input(name) else {Feature("alias", name): "none"})}

    def typed(self, name: str, dtype: str, main: str) -> Wish:
        """Return the wish for the dtype of a tensor, and for the dtypes of other tensors on which it depends."""
        op, capability = self.op, self.capability
        typed: Wish = {Feature("dtype", op.main): main, Feature("dtype", name): dtype}
        others, following = _depending(capability, name, dtype, main)
        followed = op.operand(name).dtype
        if others and followed in others[0]:
            wanted = Feature("dtype", followed)
            wished = [there for there in others if there.get(followed) == self.wish.get(wanted)]
            typed[wanted] = (wished or others)[0][followed]
        for other in following:
            its = self.wish.get(other)
            if its is not None and its not in capability.dtypes_of(other.subject, {op.main: main, name: dtype}):
                typed[other] = dtype  # this contradicts the wish
        return typed

    def of_one_dtype(self, name: str, source: str) -> Wish:
        """Return the wish that both tensors are present, with the same dtype."""
        pairs = sorted({*dtype_pairs(self.capability, name)} & {*dtype_pairs(self.capability, source)})
        dtype, main = self.pick(pairs)
        there = {**self.there(name), **self.there(source), Feature("dtype", self.op.main): main}
        own = {Feature("dtype", source): dtype, Feature("layout", source): "contiguous", Feature("dtype", name): dtype}
        return {**there, **own}


@remembered(1024)
def _needed(op: str, name: str) -> Sequence[Feature]:
    """Return the features of the presence of a tensor, '' for none, and of those without which it has no meaning."""
    return (Feature("presence", name), *_needed(op, OPS[op].operand(name).only_with)) if name else ()


@remembered(4096)
def _mains(capability: Capability, name: str, dtype: str) -> Sequence[str]:
    """Return the dtypes that the first input may have beside a tensor of this dtype."""
    return [main for own, main in dtype_pairs(capability, name) if own == dtype]


@remembered(1 << 14)
def _depending(
    capability: Capability, name: str, dtype: str, main: str
) -> tuple[Sequence[Mapping[str, str]], Sequence[Feature]]:
    """Return the dtypes of other tensors beside which a tensor may have this dtype, see `typings`, and the features for
    dtypes of tensors that have its dtype by default."""
    others = [there for there in typings(capability, name, main) if dtype in capability.dtypes_of(name, there)]
    return others, [Feature("dtype", other.name) for other in OPS[capability.op].operands if other.dtype == name]


def _key(op: Op, dim: str) -> Feature:
    """Return the feature that holds the extent of a dimension in a wish."""
    return N if dim == op.row else ROWS if dim == OUTER else Feature("extent", dim)


_WAYS: Mapping[Kind, Callable[[_Asking, Feature, Any], Wish | None]] = {
    "n": _Asking.of_size,
    "rows": _Asking.of_size,
    "extent": _Asking.of_size,
    "axis": lambda _, kind, answer: {kind: answer, **({ROWS: 1} if answer[1] == 1 else {})},
    "tail": _Asking.of_tail,
    "remainder": _Asking.of_rest,
    "equal extents": _Asking.of_equal,
    "tile": _Asking.of_tiles,
    "parameter": lambda ask, kind, value: {kind: value, **ask.there(ask.op.parameter(kind.subject).only_with)},
    "presence": lambda ask, kind, answer: ask.there(kind.subject) if answer == "yes" else {kind: answer},
    "recipe": _Asking.of_recipe,
    "layout": _Asking.of_grid,
    "stack": _Asking.of_grid,
    "dtype": _Asking.of_dtype,
    "alignment": _Asking.of_alignment,
    "alias": _Asking.of_alias,
    "memory": _Asking.of_memory,
}
"""The method that makes the wish for each kind of coverage feature."""
