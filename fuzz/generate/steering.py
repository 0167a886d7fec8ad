"""From coverage gaps to a draw that fills them: the first for certain, others as far as they go with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat

from fuzz.base.capability import Capability
from fuzz.base.dispatch import SMALL
from fuzz.base.draw import Draw
from fuzz.base.stream import Dice
from fuzz.generate.capabilities import dtype_pairs, typings
from fuzz.generate.coverage import EQUAL, STEP, TILE, Label, named
from fuzz.generate.dims import common, has_room, some_extents
from fuzz.generate.gaps import ALONE, Gaps
from fuzz.generate.plan import plan, zeroed
from fuzz.generate.sketch import (
    ENOUGH_ROWS,
    EXTENT,
    LARGEST_CASE,
    MANY_ROWS,
    SHORT,
    USUAL_CASE,
    Sketch,
    first_recipes,
    fitting,
    fitting_n,
)
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS

Wish = dict[str, str]
"""What a coverage gap asks for: what `fuzz.generate.plan.Wish` knows, and "n", "rows", "axis" and "NAME value" of
parameters."""

_LONG = 300
"""A row need not have more elements than this for a coverage gap's sake."""
_LARGEST = 4096
"""A tensor has no more elements where several gaps together ask for its size: shards do not know of one another's
visits, so that each asks for many rows and for long ones."""
_ROWS = SMALL.rows
_GRID_ROWS = 6
"""A tensor whose layout is asked for has this many rows: 2 by 3, or fewer where so many would not be small."""
_USUAL_AXIS = "1 of rank 2"
_NEARBY = 8
"""How much longer or shorter a row may become for a coverage gap's sake."""
_EQUAL = 15
"""The number of extents to choose from where two dimensions are to have one."""
_TAILS = 5
"""The number of row lengths with the wanted tail to choose from."""


def steer(
    sketch: Sketch, capability: Capability, gaps: Gaps, wanted: Sequence[Label], turn: int, dice: Dice | None = None
) -> Draw:
    """A draw for `capability` that fills the first of the `wanted` gaps, and the others as far as they go with it.

    `sketch` and `turn` vary what they leave open. Where values decide (the position of a spike), or tensors have yet
    to share memory ("memory"), the draw only makes it possible.
    """
    wish: Wish = {}
    for gap in wanted if wanted[0][0] != ALONE else wanted[:1]:
        if "n" in wish and (gap[0] == "n" or gap[0].startswith("tail of ")):
            continue  # one has decided already
        asked = _asked(capability, gaps, gap, wish, turn)
        if asked is not None and _goes_with(asked, wish):
            wish.update(asked)
    return plan(_shaped(sketch, capability, wish), wish, dice)


def steer_as_shaped(
    sketch: Sketch, capability: Capability, gaps: Gaps, wanted: Sequence[Label], turn: int, dice: Dice
) -> Draw:
    """A draw of the sketch's own shape that fills the first of the `wanted` gaps, and the others as far as they go with
    it, whatever they would have asked of the shape."""
    wish: Wish = {}
    for gap in wanted:
        asked = _asked(capability, gaps, gap, wish, turn) or {}
        for of_shape in ("n", "rows", "axis"):
            asked.pop(of_shape, None)
        agrees = all(wish.get(key, value) == value for key, value in asked.items())
        wished = {key.removeprefix(EXTENT): int(size) for key, size in {**wish, **asked}.items() if EXTENT in key}
        if agrees and has_room(sketch, wished):
            wish.update(asked)
    return plan(_valued(sketch, capability, wish), wish, dice)


def _goes_with(asked: Wish, wish: Wish) -> bool:
    """Whether nothing else is wished for already, and the case is cheap to judge with both."""
    for key, value in asked.items():
        if wish.get(key, value) != value:
            return False
    if not wish or not ("n" in asked or "rows" in asked or any(key.startswith(EXTENT) for key in asked)):
        return True
    sizes = [int(size) for key, size in {**wish, **asked}.items() if key.startswith(EXTENT)]
    if sizes:
        sizes += [int({**wish, **asked}.get(key, "1")) for key in ("n", "rows")]
        return math.prod(map(max, sizes, repeat(1))) <= _LARGEST
    rows = asked.get("rows") or wish.get("rows", "1")
    return rows == "1" or int(asked.get("n") or wish.get("n", "0")) * int(rows) <= _LARGEST


def nudged(sketch: Sketch, gaps: Gaps) -> Sketch:
    """The sketch with rows of about the same length: the nearest one that fills most gaps of the turn's part."""
    step = sketch.capability.step(OPS[sketch.capability.op].row)
    nearby = [sketch.n, *(sketch.n + sign * far * step for far in range(1, _NEARBY + 1) for sign in (1, -1))]
    fitting = [n for n in nearby if n > 0 and fitting_n(sketch.capability, n) == n]
    n = max(fitting, key=lambda n: gaps.filled(n)[0], default=sketch.n)
    return sketch if n == sketch.n else replace(sketch, n=n)


def _shaped(sketch: Sketch, capability: Capability, wish: Mapping[str, str]) -> Sketch:
    """The sketch with the size, axis, parameters and recipe of the first input that are wished for; as plain as can be
    where none is."""
    usual = _USUAL_AXIS if sketch.axis == sketch.rank - 1 else f"{sketch.axis} of rank {sketch.rank}"
    axis, rank = (int(part) for part in wish.get("axis", usual).split(" of rank "))
    few = "rows" in wish or any(key.endswith(" layout") for key in wish)
    # Longer rows count for nothing but their length, see `fuzz.base.capability.SMALL`: such a gap would stay open.
    longest = _LONG if few else SMALL.elements
    n = int(wish["n"]) if "n" in wish else fitting_n(capability, max(2, min(sketch.n, longest)))
    enough = ENOUGH_ROWS if n <= USUAL_CASE else 1
    rows = max(1, min(sketch.rows, _ROWS, max(enough, USUAL_CASE // max(n, 1))))
    return replace(
        _valued(sketch, capability, wish),
        n=n,
        rows=int(wish["rows"]) if "rows" in wish else 1 if rank == 1 else rows,
        rank=rank,
        axis=axis,
        outer=(),
    )


def _valued(sketch: Sketch, capability: Capability, wish: Mapping[str, str]) -> Sketch:
    """The sketch with the parameters and the recipe of the first input that are wished for."""
    op = OPS[capability.op]
    wished = {name: float(value) for kind, value in wish.items() if (name := _parameter(op, kind)) is not None}
    recipe = wish.get(f"{op.main} recipe", sketch.recipe)
    if any(wished.get(name) for name in zeroed(capability, recipe)):
        recipe = next(name for name in first_recipes(op.name) if not zeroed(capability, name))
    parameters = {**sketch.parameters, **wished}
    return replace(sketch, capability=capability, odd=False, parameters=parameters, recipe=recipe)


def _parameter(op: Op, kind: str) -> str | None:
    """The name of the parameter that labels of a kind are about."""
    name, _, what = kind.partition(" ")
    return name if what == "value" and name in op.params else None


def _asked(capability: Capability, gaps: Gaps, gap: Label, wish: Mapping[str, str], turn: int) -> Wish | None:
    """What the coverage gap asks for, besides what is already wished for; None where no wish can fill it."""
    (kind, value), op = gap, OPS[capability.op]
    if kind.startswith("tail of "):
        return _with_tail(capability, gaps, int(kind.removeprefix("tail of ")), int(value), wish, turn)
    if kind.startswith((EXTENT, TILE)) or kind == EQUAL:
        return _of_sizes(capability, kind, value, wish, turn)
    if kind in ("n", "rows", "axis"):
        if value == "0" and wish:
            return None  # a case without elements visits nothing else
        if kind == "rows" and int(value) in MANY_ROWS and "n" not in wish:
            return _of_many_rows(capability, value, turn)
        return {kind: value, **({"rows": "1"} if value.endswith("rank 1") else {})}
    if (name := _parameter(op, kind)) is not None:
        return {kind: value, **_there(op, op.parameter(name).only_with)}
    if kind == f"{op.main} recipe":
        return _with_recipe(capability, value, wish, turn)
    if kind == "dtype":
        return {f"{op.main} dtype": value}
    if kind == "alias":
        return _shared(capability, value, turn)
    if kind == ALONE:
        return _sharing_memory(capability, value, turn) if not wish else None
    return _of_tensor(capability, kind, value, wish, turn)


def _of_sizes(capability: Capability, kind: str, value: str, wish: Mapping[str, str], turn: int) -> Wish | None:
    """An extent of a named dimension, two that are equal, or whole tiles."""
    op = OPS[capability.op]
    if kind.startswith(TILE):
        dims = [dim for dim in (OUTER, *op.named) if value == named(op, dim)] or op.tiled
        tile = int(kind.removeprefix(TILE))
        # One element more, where the kernel takes that.
        sizes = {dim: max(fitting(capability, dim, tile + over) for over in (0, turn % 2)) for dim in dims}
        asked = {_key(op, dim): str(size) for dim, size in sizes.items()}
        return asked if asked.keys() != {"rows"} or "n" in wish else _of_many_rows(capability, asked["rows"], turn)
    if kind == EQUAL:
        one, other = value.split(" = ")
        keys, both = (_key(op, one), _key(op, other)), common(capability, (one, other))[:_EQUAL]
        known = {wish[key] for key in keys if key in wish} or {str(both[turn % len(both)])}
        return dict.fromkeys(keys, known.pop()) if len(known) == 1 else None
    if value == "0" and wish and " mod " not in kind:
        return None  # a case without elements visits nothing else
    key, _, step = kind.partition(" mod ")
    some = some_extents(capability, key.removeprefix(EXTENT))
    leaving = [size for size in some if size > STEP and size % STEP == int(value)] if step else [int(value)]
    return {key: str(leaving[turn % len(leaving)])}


def _of_many_rows(capability: Capability, rows: str, turn: int) -> Wish:
    """Return wishes for that number of rows, which are short."""
    return {"rows": rows, "n": str(fitting_n(capability, 1 + turn % SHORT))}


def _key(op: Op, dim: str) -> str:
    """What wishes for the extent of a dimension begin with."""
    return "n" if dim == op.row else "rows" if dim == OUTER else EXTENT + dim


def _with_tail(
    capability: Capability, gaps: Gaps, block: int, residue: int, wish: Mapping[str, str], turn: int
) -> Wish | None:
    """A row longer than the block that leaves `residue` over, of the length that fills most gaps besides."""
    row = OPS[capability.op].row
    step = capability.step(row)
    most = min(max(block * (step + _TAILS), step), max(2 * block, LARGEST_CASE // max(1, int(wish.get("rows", "1")))))
    most = min(most, capability.able.max.get(row, most))
    fitting = [n for n in range(block + residue, most + 1, block) if n > block and n % step == 0][:_TAILS]
    if not fitting:
        return None
    return {"n": str(max(fitting, key=lambda n: (gaps.filled(n), (n // block + turn) % _TAILS)))}


def _with_recipe(capability: Capability, value: str, wish: Mapping[str, str], turn: int) -> Wish:
    """The first input of a recipe. Where it has to place something in the tail, in rows that have one, of all
    positions."""
    op = OPS[capability.op]
    name, *position = value.split()
    zeros = {f"{each} value": repr(0.0) for each in zeroed(capability, name)}
    asked = {f"{op.main} recipe": name, **zeros}
    if not position or int(wish.get("n", "0")) % 64 > 1:
        return asked
    return {**asked, "n": str(fitting_n(capability, 66 + turn % 62))}


def _of_tensor(capability: Capability, kind: str, value: str, wish: Mapping[str, str], turn: int) -> Wish | None:
    """What is asked of a single tensor: to be there or not, its dtype, layout, alignment or recipe."""
    op = OPS[capability.op]
    name, _, what = kind.partition(" ")
    try:
        operand = op.operand(name)
    except KeyError:
        return None
    if what == "presence":
        return _there(op, name) if value == "yes" else {kind: value}
    asked = _there(op, name)
    if not op.is_input(name):
        asked[f"{name} alias"] = "none"  # in the memory of an input it has that one's dtype and layout
    if what == "recipe":
        return {**asked, kind: value}
    if what in ("layout", "stack"):
        # Classes differ only where there are several axes of several elements.
        rows = min(_GRID_ROWS, _LARGEST // max(1, int(wish.get("n", fitting_n(capability, 1))))) // 2 * 2
        several = {"axis": "2 of rank 3", "rows": str(max(2, rows))}
        grid = {} if operand.axes == (op.row,) and what == "layout" else several
        grid.update({EXTENT + dim: "3" for dim in op.further if what == "layout" and dim in operand.axes})
        return {**asked, **grid, kind: value}
    if what == "dtype":
        dtype, main = value.split(f" for {op.main} ")
        return {**asked, **_typed(capability, name, dtype, main, wish)}
    if what.startswith("alignment "):
        dtype = what.removeprefix("alignment ")
        fitting = [main for own, main in dtype_pairs(capability, name) if own == dtype]
        wished = wish.get(f"{op.main} dtype")
        main = wished if wished in fitting else fitting[turn % len(fitting)]
        typed = _typed(capability, name, dtype, main, wish)
        return {**asked, **typed, f"{name} byte": value, f"{name} layout": "contiguous"}
    return asked


def _there(op: Op, name: str) -> Wish:
    """Wishes that a tensor is there, and another one without which it makes no sense."""
    found: Wish = {}
    while name:
        found[f"{name} presence"] = "yes"
        name = op.operand(name).only_with
    return found


def _typed(capability: Capability, name: str, dtype: str, main: str, wish: Mapping[str, str]) -> Wish:
    """Wishes that give a tensor its dtype, where that depends on another one's with those as well."""
    op = OPS[capability.op]
    typed = {f"{op.main} dtype": main, f"{name} dtype": dtype}
    others = [there for there in typings(capability, name, main) if dtype in capability.dtypes_of(name, there)]
    followed = op.operand(name).dtype
    if others and followed in others[0]:
        wished = [there for there in others if there.get(followed) == wish.get(f"{followed} dtype")]
        typed[f"{followed} dtype"] = (wished or others)[0][followed]
    for other in op.operands:
        its = wish.get(f"{other.name} dtype") if other.dtype == name else None
        if its is not None and its not in capability.dtypes_of(other.name, {op.main: main, name: dtype}):
            typed[f"{other.name} dtype"] = dtype  # which contradicts the wish
    return typed


def _shared(capability: Capability, value: str, turn: int) -> Wish:
    """Wishes under which an output can be in the memory of an input: both there, one dtype, no overlap within it."""
    nowhere = {f"{output.name} alias": "none" for output in OPS[capability.op].outputs}
    if value == "none":
        return nowhere
    output, source = value.split(" in ")
    return {**nowhere, **_of_one_dtype(capability, output, source, turn), f"{output} alias": source}


def _sharing_memory(capability: Capability, value: str, turn: int) -> Wish:
    """Wishes under which tensors can share memory: long rows to overlap in part, no output in place of an input."""
    name, other = value.split(" over ") if " over " in value else value.split(" is ")
    nowhere = {f"{output.name} alias": "none" for output in OPS[capability.op].outputs}
    return {**nowhere, **_of_one_dtype(capability, name, other, turn), "n": str(fitting_n(capability, 5 + turn % 60))}


def _of_one_dtype(capability: Capability, name: str, source: str, turn: int) -> Wish:
    pairs = sorted({*dtype_pairs(capability, name)} & {*dtype_pairs(capability, source)})
    dtype, main = pairs[turn % len(pairs)]
    op = OPS[capability.op]
    there = {**_there(op, name), **_there(op, source), f"{op.main} dtype": main}
    return {**there, f"{source} dtype": dtype, f"{source} layout": "contiguous", f"{name} dtype": dtype}
