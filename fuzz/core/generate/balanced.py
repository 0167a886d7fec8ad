"""Cases that are balanced over what a kernel can depend on. Each has one level on every axis, such as a length of 8 to
31 and values in ascending order. Of some random choices the one is taken whose pairs of levels are the rarest so far.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import THREADS, Case, Tensor
from fuzz.core.base.draw import Draw
from fuzz.core.base.dtypes import from_bits, quantise
from fuzz.core.base.feature import Feature
from fuzz.core.base.hints import EXTENT, SIZE, TWO_THREADS, WAY, Hint
from fuzz.core.base.probe import AUTOGRAD, GHOST, PAUSE, STREAM, WITH_GRADIENTS
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.dims import FEW_BATCHES, USUAL_WORK, Decisions, fitted, ranks_of, rotated
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.menus import menu_of
from fuzz.core.generate.realise import cases_of, laid
from fuzz.core.generate.sketch import first_recipes, simplest
from oracles.dtypes import ITEMSIZE, SINGLE
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS

Values = NDArray[np.float64]
Levels = Mapping[str, Any]
"""The level of a case on each axis."""

_CHOICES = 12
"""The number of random choices of which the best one is taken."""
_PAUSE_EVERY = 25
"""One case in this many is called after a pause, which takes long."""
_HINTED = 2
"""One case in this many follows a hint, if there are any."""
_EXTENTS = ((1, 1), (2, 7), (8, 31), (32, 127), (128, 511), (512, 2047))
_ROWS = (*_EXTENTS[:4], (128, 300))
_MULTIPLES = (1, 2, 4, 8, 16, 64)
_POWERS = (-11, -8, -6, -5, -4, -3, -2, -1, 0, 2)
"""The largest elements of all inputs are at most these powers of two."""
_APART = 10
"""The inputs or rows that are smaller than others are so by this power of two."""
_LEAST = -12
_PLAIN = 300
"""The extent of cases in which sizes alone are tried."""


def _rows_alike(rows: Values) -> Values:
    return np.broadcast_to(rows[:1], rows.shape)


def _turned(rows: Values, place: int) -> Values:
    """Return each row with its largest magnitude swapped to a place."""
    made, at = rows.copy(), np.arange(len(rows))
    largest = np.abs(rows).argmax(-1)
    made[at, largest], made[at, place] = rows[at, place], rows[at, largest]
    return made


def _with_negative_zero(rows: Values) -> Values:
    made = rows.copy()
    made[:, rows.shape[1] // 2] = -0.0
    return made


_SHAPED: Mapping[str, Mapping[str, Callable[[Values], Values]]] = {
    "signs": {
        "no negative": np.abs, "no positive": lambda rows: -np.abs(rows),
        "whole numbers": lambda rows: np.round(rows * 4),
    },
    "arrangement": {
        "all equal": lambda rows: np.broadcast_to(rows[:, :1], rows.shape), "rows alike": _rows_alike,
        "one value": lambda rows: np.full_like(rows, np.abs(rows).max()), "ascending": np.sort,
        "descending": lambda rows: -np.sort(-rows), "first": lambda rows: _turned(rows, 0),
        "last": lambda rows: _turned(rows, -1), "negative zero": _with_negative_zero,
    },
}  # fmt: skip
"""What is done to the rows of an input, by axis and level: what a search hardly does. An axis has the level '' too, for
nothing."""


@dataclass(frozen=True)
class Balanced:
    """A case, and the probe by which it is called once more; '' for none."""

    case: Case
    probe: str


def balanced(
    capability: Capability, seed: int, count: int, probes: Sequence[str] = (), hints: Sequence[Hint] = (),
    is_over: Callable[[], bool] = lambda: False,
) -> list[Balanced]:  # fmt: skip
    """Return `count` cases, less those that the capability refuses, or fewer if `is_over` returns True meanwhile. One
    in `_HINTED` has the level of a hint."""
    axes, stream = _axes_of(capability, probes), Stream(seed).child("balanced")
    held, chosen, draws = Counter[Any](), list[Levels](), list[Draw]()
    for number in range(count):
        if is_over():
            break
        dice = Dice(stream.child(f"{number}"))
        hint = hints[number // _HINTED % len(hints)] if hints and number % _HINTED == 0 else None
        tried = [{axis: dice.pick(some) for axis, some in axes.items()} for _ in range(_CHOICES)]
        levels: Levels = max(tried, key=lambda each: sum(0.5 ** held[pair] for pair in combinations(each.items(), 2)))
        held.update(combinations(levels.items(), 2))
        if number % _PAUSE_EVERY == _PAUSE_EVERY - 1 and PAUSE in probes:
            levels = {**levels, WAY: PAUSE}
        chosen.append(_hinted(levels, hint, dice, OPS[capability.op]) if hint else levels)
        draws.append(_drawn(capability, chosen[-1], dice))
    cases = cases_of([laid(draw) for draw in draws])
    made = [Balanced(_edited(case, levels), levels.get(WAY, "")) for case, levels in zip(cases, chosen, strict=True)]
    return [each for each in made if capability.refusal(each.case) is None]


def sized_cases(capability: Capability, seed: int) -> list[Case]:
    """Return plain cases whose inputs are all small at once, each case with another size; and two of them for two
    threads, if the kernel can be told how many to use. A search hardly has such cases: most inputs that it draws have
    elements of ordinary size, and its workers have one thread."""
    op, stream = OPS[capability.op], Stream(seed).child("sized")
    if not _free_inputs(op):
        return []
    dims = [dim for dim in op.tiled if dim in op.named and dim not in op.fixed] or [op.row]
    levels = [{SIZE: size, dims[at % len(dims)]: (_PLAIN, _PLAIN)} for at, size in enumerate(_POWERS[:-1])]
    dice = [Dice(stream.child(str(each[SIZE]))) for each in levels]
    cases = cases_of([laid(_drawn(capability, *pair)) for pair in zip(levels, dice, strict=True)])
    found = [_edited(case, each) for case, each in zip(cases, levels, strict=True)]
    threaded = found[-2:] if capability.takes_threads else []
    return [*found, *(replace(case, params={**case.params, THREADS: 2}) for case in threaded)]


def _axes_of(capability: Capability, probes: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """Return the levels of each axis on which cases for the capability can differ."""
    op = OPS[capability.op]
    ways = [each for each in probes if each not in (GHOST, STREAM, PAUSE)]
    ways += [AUTOGRAD] * (len(WITH_GRADIENTS) - 1) * (AUTOGRAD in ways)
    found: dict[str, Sequence[Any]] = {
        **{dim: _EXTENTS for dim in op.named if dim not in op.fixed}, "multiple": _MULTIPLES,
        OUTER: _ROWS if OUTER in op.inputs[0].axes else (), "rank": ranks_of(op), "dtype": capability.able.dtypes,
        TWO_THREADS: ("", "", "2") if capability.takes_threads else (), WAY: ("", *ways),
    }  # fmt: skip
    if _free_inputs(op):
        found |= {SIZE: _POWERS, "apart": ("", "", *_free_inputs(op)), "row": ("", "", "larger", "smaller")}
        found |= {axis: ("", *levels) for axis, levels in _SHAPED.items()}
    return {axis: levels for axis, levels in found.items() if len(levels) > 1}


def _free_inputs(op: Op) -> Sequence[str]:
    """Return the inputs of ordinary numbers, which may have any value."""
    names = [each.name for each in op.inputs if each.name not in op.integers and "normal" in menu_of(each).often]
    return [] if op.kept else names


def _hinted(levels: Levels, hint: Hint, dice: Dice, op: Op) -> Levels:
    """Return the levels with that of a hint, if it is about an axis that they have."""
    kind, value = hint
    dims = [dim for dim in (op.row, OUTER, *op.named) if dim in levels]
    if kind == EXTENT and dims:
        return {**levels, dice.pick(dims): (int(value), int(value)), "multiple": None}
    if kind == SIZE and SIZE in levels:  # of each input, as the number may be about any
        filled = {"arrangement": "one value", "signs": "no negative"} if dice.one_in(2) else {}
        return {**levels, "apart": "", "row": "", **filled, SIZE: float(value)}
    return {**levels, kind: value} if kind in (WAY, TWO_THREADS) and kind in levels else levels


def _drawn(capability: Capability, levels: Levels, dice: Dice) -> Draw:
    """Return a plain draw with the levels' extents, as far as there is room for them, and their dtype."""
    op = OPS[capability.op]
    rank, recipes = levels.get("rank", ranks_of(op)[-1]), first_recipes(op.name)
    base = replace(simplest(capability, dice), rank=rank, axis=rank - 1)
    base = replace(base, recipe="normal" if "normal" in recipes else recipes[0])
    extents = Decisions(fitted(base), dice, USUAL_WORK)
    dims = [dim for dim in (*op.named, OUTER) if dim in levels and (dim != OUTER or rank > len(op.inner))]
    wished: dict[str, tuple[int, int]] = {dim: levels[dim] for dim in dims}
    exact = [dim for dim, (least, most) in wished.items() if least == most]
    for dim in (*exact, *rotated([dim for dim in wished if dim not in exact], dice)):
        size = _extent(*wished[dim], levels.get("multiple") if dim == op.row else None, dice)
        extents.keep({dim: min(size, extents.room(dim))})
    extents.draw(batches=FEW_BATCHES)
    dtype = levels.get("dtype", capability.able.dtypes[0])
    return draw_from(extents.sketch, {Feature("dtype", op.main): dtype}, dice)


def _extent(least: int, most: int, multiple: int | None, dice: Dice) -> int:
    """Return an extent in a range: if there is one, a multiple of this power of two and of no larger one up to 64."""
    fitting = [size for size in range(least, most + 1) if multiple is None or min(size & -size, 64) == multiple]
    return dice.pick(fitting) if fitting else dice.pick((least, most))


def _edited(case: Case, levels: Levels) -> Case:
    """Return the case with the levels' values, and with their number of threads."""
    op, inputs, structured = OPS[case.op], dict(case.inputs), case.structured
    params = {**case.params, THREADS: 2} if levels.get(TWO_THREADS) else case.params
    free = [name for name in _free_inputs(op) if name in inputs and inputs[name].alias is None and SIZE in levels]
    for name in free:
        rows = _rows_of(inputs[name])
        if not np.isfinite(rows).all() or not rows.any():
            continue
        for axis, ways in _SHAPED.items():
            if level := levels.get(axis):
                rows, structured = ways[level](rows), True
        rows = rows * _factors(len(rows), levels.get("row", ""))
        inputs[name] = _scaled(inputs[name], rows, levels[SIZE], levels.get("apart") == name)
    return replace(case, params=params, inputs=inputs, structured=structured)


def _rows_of(tensor: Tensor) -> Values:
    shape = tensor.layout.shape
    with np.errstate(invalid="ignore"):  # some inputs hold NaN, and stay as they are
        values = from_bits(tensor.bits, tensor.dtype, shape).astype(np.float64)
    return values.reshape(-1, shape[-1] if shape else 1) if values.size else values.reshape(0, 1)


def _factors(rows: int, level: str) -> Values:
    """Return a factor for each row, by which one row is larger or smaller than the others."""
    factors = np.ones((rows, 1))
    if level and rows > 1:
        factors[0 if level == "smaller" else slice(1, None)] = 2.0**-_APART
    return factors


def _scaled(tensor: Tensor, rows: Values, size: Any, apart: bool) -> Tensor:
    """Return the tensor with these values, times a factor: the largest one is a power of two if `size` is whole, and
    else has this size exactly."""
    largest = float(np.abs(rows).max(initial=0.0))
    if not largest:
        return tensor
    if isinstance(size, float):
        return replace(tensor, bits=quantise(rows * (size / largest), tensor.dtype).tobytes())
    most = size if ITEMSIZE[tensor.dtype] >= SINGLE.itemsize else min(size, 0)
    power = max(most - _APART * apart, _LEAST) - math.ceil(math.log2(largest))
    return replace(tensor, bits=quantise(rows * 2.0**power, tensor.dtype).tobytes())
