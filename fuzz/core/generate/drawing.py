"""From a sketch to a draw: which tensors are present, with their dtypes, placements, recipes and aliases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import CACHE_LINE, Guard
from fuzz.core.base.draw import Draw, Part, Placement, spread_over
from fuzz.core.base.feature import Feature, Kind
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.capabilities import presence
from fuzz.core.generate.dims import has_rows_alone, possible, shaped, usual_rank
from fuzz.core.generate.layouts import BROADCAST, EXPANDED, LAYOUT_CLASSES, OVERLAPPING, classes_of
from fuzz.core.generate.menus import menus_of
from fuzz.core.generate.recipes import Recipe
from fuzz.core.generate.related import STRAYS
from fuzz.core.generate.sketch import Sketch, fitting_n, free_parameters
from oracles.dtypes import ITEMSIZE, SINGLE
from oracles.op import Op
from oracles.operand import AXIS, OUTER, Operand
from oracles.ops import OPS, remembered

Wish = Mapping[Feature, Any]
"""The choices for a draw that are fixed and not left to chance, by feature: a tensor's presence, dtype, recipe, ..."""

EVEN = 16
"""A divisor that compilers specialise on. It allows vectors if it divides addresses (bytes) and steps (elements)."""
EVEN_ONE_IN = 8
"""One in this many draws has addresses and distances that `EVEN` divides in every tensor, as most real tensors have."""

STACKS = ("one", "many")
"""The number of rows of a stacked tensor, in words."""

_STACKS = ("", "", "", *STACKS)
_WISHED: tuple[Kind, ...] = ("presence", "stack", "dtype", "alias", "layout", "byte", "recipe")
_GUARDS: tuple[Guard, ...] = ("after", "before")
_ROW_WISE = ("contiguous", "pitched")
_GAPPED = ("pitched", "padded")
"""The layouts in which `spread` is the gap between rows."""
_SHARED_ONE_IN = 3
"""One in this many batched inputs of two or more dimensions is one matrix for the whole batch, as shared weights are,
if any layout is allowed."""
_RELATED_ONE_IN = 6
"""One in this many gaps between rows is related to the length of the rows."""
_RELATED_GAP = 1024
"""The longest row with a related gap, since all of the gap is filled and checked."""


@remembered(1024)
def layouts_of(capability: Capability, name: str) -> tuple[str, ...]:
    """Return the names of the layout classes in which the kernel takes a tensor."""
    strides, op = capability.able.strides, OPS[capability.op]
    with_rows, is_input = op.has_rows(name), op.is_input(name)
    if strides == "contiguous" or (not with_rows and strides != "any"):
        return ("contiguous",)
    if capability.able.alignment > 1 and with_rows:
        return _ROW_WISE  # the gaps of these layouts can be chosen so that rows are aligned
    names = {
        "spaced": _ROW_WISE,
        "pitched": (*_ROW_WISE, "expanded"),
        "rows": (*_ROW_WISE, "padded", "reversed", "expanded", "broadcast", "permuted"),
        "any": tuple(LAYOUT_CLASSES),
    }[strides]
    known = classes_of(_axes(op, op.operand(name), usual_rank(op)))
    possible = tuple(name for name in names if name in known and (capability.shares_memory or name != "reversed"))
    return tuple(name for name in possible if is_input or name not in OVERLAPPING)


def draw_from(sketch: Sketch, wish: Wish | None = None, dice: Dice | None = None) -> Draw:
    """Return the draw of a sketch. `wish` fixes some choices; `dice`, or the sketch's own seed, decides all others."""
    dice = dice or Dice(Stream(sketch.seed).child("plan"))
    even = dice.one_in(EVEN_ONE_IN) and wish is None and not sketch.odd
    if even:
        sketch = replace(sketch, n=fitting_n(sketch.capability, -(-sketch.n // EVEN) * EVEN))
    free = wish is None and not (sketch.outer or sketch.extents)
    sketch = possible(shaped(sketch, dice, wish or {}, free=free, even=EVEN if even else 1))
    able = sketch.capability.able
    if able.strides == "contiguous" and sketch.n * min(ITEMSIZE[dtype] for dtype in able.formats) % able.alignment:
        sketch = replace(sketch, rows=1, outer=())  # further rows would not be aligned
    return _Drafter(sketch, wish or {}, even, dice).draw()


@dataclass(frozen=True)
class _Choice:
    """The choices that a kernel leaves open for one operand."""

    operand: Operand
    presence: tuple[str, ...]
    is_input: bool
    layouts: tuple[str, ...]
    usual: tuple[str, ...]
    """The layouts that a kernel handles without knowing about strides."""
    may_stray: bool
    """Whether all cases may have other layouts, not only odd ones."""
    sources: tuple[str, ...]
    """The inputs in whose memory the operand may lie."""
    step: int
    """The alignment of the operand's rows, in bytes."""
    wishes: Mapping[Kind, Feature]
    """The features that a wish may have for the operand, by kind. Making them for each draw took 2% of its time."""


@remembered(256)
def _choices(capability: Capability) -> tuple[_Choice, ...]:
    op, able = OPS[capability.op], capability.able
    found = []
    for operand in op.operands:
        name, is_input = operand.name, operand in op.inputs
        layouts = layouts_of(capability, name)
        sources = tuple(source for output, source in op.aliases if output == name and (name, source) in able.aliases)
        found.append(
            _Choice(
                operand,
                presence(capability, operand),
                is_input,
                layouts,
                tuple(layout for layout in layouts if layout in _ROW_WISE),
                able.strides != "any" or not has_rows_alone(op),
                () if is_input else sources,
                able.alignment if op.has_rows(operand.name) else 1,
                {kind: Feature(kind, name) for kind in _WISHED},
            )
        )
    return tuple(found)


@remembered(1024)
def zeroed(capability: Capability, recipe: str) -> tuple[str, ...]:
    """Return the parameters that must be 0 if the first input has this recipe."""
    op = OPS[capability.op]
    found = menus_of(op)[op.main].recipes.get(recipe)
    if not isinstance(found, Recipe) or not found.unscaled:
        return ()
    return tuple(each.name for each in free_parameters(capability) if each.power and each.least <= 0.0)


class _Drafter:
    """Decides on one tensor after the other."""

    def __init__(self, sketch: Sketch, wish: Wish, even: bool, dice: Dice) -> None:
        self.sketch, self.wish, self.even, self.dice = sketch, wish, even, dice
        self.able, self.op = sketch.capability.able, OPS[sketch.capability.op]
        self.parts: dict[str, Part] = {}
        self.dtypes: dict[str, str] = {}
        """The dtypes of the parts, by name."""
        self.taken: set[str] = set()
        """The inputs in whose memory some output lies."""
        self.gaps: set[int] = set()

    def draw(self) -> Draw:
        """Return the whole draw."""
        sketch = self.sketch
        for choice in _choices(sketch.capability):
            if self._is_there(choice):
                part = self._input(choice) if choice.is_input else self._output(choice)
                self.parts[part.name] = part
                self.dtypes[part.name] = part.dtype
        return Draw(
            op=self.op.name,
            n=sketch.n,
            outer=sketch.outer or spread_over(sketch.rows, sketch.rank - 1),
            params={**self._parameters(), AXIS: sketch.axis},
            seed=sketch.seed,
            parts=tuple(self.parts.values()),
            extents=sketch.extents,
        )

    def _parameters(self) -> dict[str, float]:
        """Return the parameters whose value differs from the neutral one, and those without a neutral value."""
        found, zeros = dict[str, float](), zeroed(self.sketch.capability, self.sketch.recipe)
        for each in self.op.parameters:
            value = self.sketch.parameters.get(each.name, each.values[0] if each.neutral is None else each.neutral)
            if each.name in zeros:
                value = 0.0
            idle = each.only_with and each.only_with not in self.parts
            if each.neutral is None or (value != each.neutral and not idle):
                found[each.name] = value
        return found

    def _wished(self, kind: Kind, choice: _Choice) -> Any:
        """Return the wish of this kind for an operand, or None if there is none."""
        return self.wish.get(choice.wishes[kind]) if self.wish else None

    def _is_there(self, choice: _Choice) -> bool:
        if len(choice.presence) > 1:
            operand = choice.operand
            if operand.only_with and operand.only_with not in self.parts:
                return False
            if operand.axes == (OUTER,) and not choice.is_input and self.sketch.n == 0:
                return False  # no contract defines the mean of no elements
            wished = self._wished("presence", choice)
            return not self.dice.one_in(3) if wished is None else wished == "yes"
        return choice.presence[0] == "yes"

    def _input(self, choice: _Choice) -> Part:
        name, dtype = choice.operand.name, self._dtype(choice)
        stack = ""
        if name in self.able.stacked:
            drawn = self.dice.pick(_STACKS)
            stack = self._wished("stack", choice) or drawn
        return Part(name, dtype, self._place(choice, dtype), self._recipe(choice), stack=stack)

    def _output(self, choice: _Choice) -> Part:
        name, dtype, source = choice.operand.name, self._dtype(choice), self._alias(choice)
        if source is not None:
            shared = self.parts[source]
            self.taken.add(source)
            return Part(name, shared.dtype, shared.placement, alias=source)
        return Part(name, dtype, self._place(choice, dtype))

    def _dtype(self, choice: _Choice) -> str:
        wished = self._wished("dtype", choice)
        if wished is not None:
            return str(wished)
        if choice.operand.name == self.op.main:
            # The dtype that most kernels take is drawn twice as often.
            dtypes = self.able.dtypes
            return self.dice.pick((*dtypes, SINGLE.name) if SINGLE.name in dtypes else dtypes)
        return self.dice.pick(self._allowed(choice.operand.name))

    def _allowed(self, name: str) -> tuple[str, ...]:
        return self.sketch.capability.dtypes_of(name, self.dtypes)

    def _alias(self, choice: _Choice) -> str | None:
        """Return an input in whose memory the output lies, or None if not allowed, not possible or not drawn."""
        if not choice.sources:
            return None
        wished = self._wished("dtype", choice)
        allowed = self._allowed(choice.operand.name) if wished is None else (wished,)
        sources = [
            source
            for source in choice.sources
            if source in self.parts and source not in self.taken and self.parts[source].dtype in allowed
            if self.parts[source].placement.layout not in OVERLAPPING
        ]
        wished = self._wished("alias", choice)
        if wished is not None:
            return wished if wished in sources else None
        if not sources or self._wished("layout", choice) or self._wished("byte", choice) is not None:
            return None
        return self.dice.pick(sources) if self.dice.one_in(4) else None

    def _recipe(self, choice: _Choice) -> str:
        if choice.operand.name == self.op.main:
            return self.sketch.recipe
        wished = self._wished("recipe", choice)
        if wished is not None:
            return str(wished)
        if choice.operand.name in self.sketch.capability.stray:
            return self.dice.pick(tuple(STRAYS))
        menu = menus_of(self.op)[choice.operand.name]
        return self.dice.pick(menu.names if self.dice.one_in(4) else menu.often)

    def _length(self, operand: Operand) -> int:
        """Return the length of an operand's rows, or n if it has none."""
        last, sketch = operand.axes[-1:], self.sketch
        if last in ((), (OUTER,), (self.op.row,)):
            return sketch.n
        named = dict(zip(self.op.inner[:-1], sketch.outer[len(sketch.outer) - len(self.op.inner) + 1 :], strict=False))
        known = {**named, self.op.row: sketch.n, **sketch.extents}
        return (self.op.whole(known) or known)[last[0]]

    def _place(self, choice: _Choice, dtype: str) -> Placement:
        """Return the placement of a tensor. The gaps between its rows differ from those of all other tensors."""
        sketch, able, dice = self.sketch, self.able, self.dice
        beyond = sketch.odd or (choice.may_stray and dice.one_in(6))
        drawn = dice.pick(choice.layouts if beyond else choice.usual)
        if beyond and BROADCAST.name in choice.layouts and len(choice.operand.axes) > 2 and dice.one_in(_SHARED_ONE_IN):
            drawn = BROADCAST.name
        layout = self._wished("layout", choice) or drawn
        spread, guard = 1 + dice.below(19), dice.pick(_GUARDS)
        n = self._length(choice.operand)
        if layout in _GAPPED and n <= _RELATED_GAP and dice.one_in(_RELATED_ONE_IN):
            # As in slices of joined tensors, rows are two or three times their length apart, or a power of two.
            spread = max(1, dice.pick((n, 2 * n, (1 << n.bit_length()) - n)))
        steps = CACHE_LINE // ITEMSIZE[dtype]
        offset = 0 if dice.one_in(2) else dice.below(steps)
        byte = self._wished("byte", choice)
        if byte is not None:
            layout, guard, offset = "contiguous", "before", byte // ITEMSIZE[dtype]
        if layout not in classes_of(_axes(self.op, choice.operand, sketch.rank)):
            # There is only one axis besides the row. `pitched` suits all kernels that take swapped axes.
            layout = {BROADCAST.name: EXPANDED.name, "transposed_each": "transposed"}.get(layout, "pitched")
        if layout == "reversed" and able.strides == "rows":
            # Reverse the order of the rows, not of their elements.
            layout, spread = ("reversed", 3 * (spread % 3) + 1) if sketch.rank > 1 else ("contiguous", spread)
        if self.even:
            layout = layout if layout in _ROW_WISE else "contiguous"
            spread, guard, offset = EVEN * (1 + spread % 4), "before", offset // EVEN * EVEN
        step = max(1, choice.step // ITEMSIZE[dtype])
        if step > 1:
            layout, spread, guard, offset = _aligned(layout, spread, offset, max(n, 1), step, steps)
        if layout in _GAPPED:  # make the gap between rows different from that of any other tensor
            while spread in self.gaps:
                spread += max(step, EVEN if self.even else 1)
            self.gaps.add(spread)
        return Placement(layout, spread, guard, offset)


def _axes(op: Op, operand: Operand, rank: int) -> int:
    """Return the number of axes of an operand, given the rank of the first input."""
    return len({*operand.axes} - {OUTER}) + (rank - len(op.inner) if OUTER in operand.axes else 0)


def _aligned(layout: str, spread: int, offset: int, n: int, step: int, steps: int) -> tuple[str, int, Guard, int]:
    """Return a layout, spread, guard and offset that put every row at a multiple of `step` elements. `steps` is the
    size of a cache line in elements."""
    spread += -(n + spread) % step
    layout = "pitched" if n % step and layout == "contiguous" else layout
    return layout, spread, "before", offset // step * step % max(steps, step)
