"""From a sketch to a draw: which tensors are there, each one's dtype, place, recipe and alias, within capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from fuzz.base.capability import Capability
from fuzz.base.case import CACHE_LINE, ITEMSIZE, Guard
from fuzz.base.draw import Draw, Part, Placement, spread_over
from fuzz.base.op import OPS, Op, Operand, Role
from fuzz.base.stream import Dice, Stream
from fuzz.generate.layouts import LAYOUT_CLASSES, OVERLAPPING
from fuzz.generate.menus import MENUS, often
from fuzz.generate.sketch import Sketch, fitting_n

Wish = Mapping[str, str]
"""What is not left to the dice, such as {"weight": "yes", "weight dtype": "f16", "x layout": "padded"}."""

OFFSETS = (0.0, 1.0, 0.5, -1.0)
"""The offsets that are added to the weight; those other than 0 only where a kernel takes them."""

EVEN = 16
"""Compilers specialise on this: addresses in bytes and distances in elements that it divides allow vectors."""
EVEN_ONE_IN = 8
"""One draw in this many is even in every tensor, as most real tensors are and hardly any drawn ones would be."""

STACKS = ("one", "many")
"""The numbers of rows of a weight of rank 2, in words."""

_GUARDS: tuple[Guard, ...] = ("after", "before")
_ROW_WISE = ("contiguous", "pitched")
_GAPPED = ("pitched", "padded")
"""The layouts whose spread is the gap between rows."""


@lru_cache(maxsize=1024)
def layouts_of(capability: Capability, role: Role, is_input: bool) -> tuple[str, ...]:
    """The layout classes in which that kernel takes a tensor of that role."""
    strides = capability.able.strides
    if strides == "contiguous" or (role != "grid" and strides != "any"):
        return ("contiguous",)
    if capability.able.alignment > 1 and role == "grid":
        return _ROW_WISE  # whose gaps can be made for the alignment's sake
    names = {
        "pitched": (*_ROW_WISE, "expanded"),
        "rows": (*_ROW_WISE, "padded", "reversed", "expanded"),
        "any": tuple(LAYOUT_CLASSES),
    }[strides]
    possible = tuple(name for name in names if capability.shares_memory or name != "reversed")
    return tuple(name for name in possible if is_input or name not in OVERLAPPING)


def plan(sketch: Sketch, wish: Wish | None = None) -> Draw:
    """The draw of a sketch; what `wish` names is not left to chance."""
    even = wish is None and not sketch.odd and Dice(Stream(sketch.seed).child("even")).one_in(EVEN_ONE_IN)
    if even:
        sketch = replace(sketch, n=fitting_n(sketch.capability, -(-sketch.n // EVEN) * EVEN))
    able = sketch.capability.able
    if able.strides == "contiguous" and sketch.n * min(ITEMSIZE.values()) % able.alignment:
        sketch = replace(sketch, rows=1)  # further rows would not be aligned
    return _Planner(sketch, wish or {}, even).draw()


class _Planner:
    """Decides one tensor after the other."""

    def __init__(self, sketch: Sketch, wish: Wish, even: bool) -> None:
        self.sketch, self.wish, self.even = sketch, wish, even
        self.able = sketch.capability.able
        self.op: Op = OPS[sketch.capability.op]
        self.dice = Dice(Stream(sketch.seed).child("plan"))
        self.parts: dict[str, Part] = {}
        self.gaps: set[int] = set()

    def draw(self) -> Draw:
        """All of it."""
        sketch = self.sketch
        for operand in self.op.inputs:
            if self._is_there(operand):
                self.parts[operand.name] = self._input(operand)
        for operand in self.op.outputs:
            if self._is_there(operand):
                self.parts[operand.name] = self._output(operand)
        offset = float(self.wish.get("offset", self.dice.pick(OFFSETS)))
        shifted = self.able.offset and "weight" in self.parts
        eps = 0.0 if sketch.recipe == "ties" else sketch.eps
        return Draw(
            op=self.op.name,
            n=sketch.n,
            outer=spread_over(sketch.rows, sketch.rank - 1),
            params={"eps": eps, "axis": sketch.axis, **({"offset": offset} if offset and shifted else {})},
            seed=sketch.seed,
            parts=tuple(self.parts.values()),
        )

    def _is_there(self, operand: Operand) -> bool:
        if not operand.optional or operand.name in self.able.needs:
            return True
        if operand.role == "rows" and operand in self.op.outputs and self.sketch.n == 0:
            return False  # what the mean of nothing is, nobody promises
        if operand.name not in self.able.optional or (operand.only_with and operand.only_with not in self.parts):
            return False
        wished = self.wish.get(operand.name)
        return not self.dice.one_in(3) if wished is None else wished == "yes"

    def _input(self, operand: Operand) -> Part:
        dtype = self._dtype(operand.name)
        part = Part(operand.name, dtype, self._place(operand, dtype), self._recipe(operand))
        return replace(part, stack=self._stack(operand)) if operand.menu == "weight" and self.able.weight_rows else part

    def _output(self, operand: Operand) -> Part:
        dtype, source = self._dtype(operand.name), self._alias(operand.name)
        if source is not None:
            shared = self.parts[source]
            return Part(operand.name, shared.dtype, shared.place, alias=source)
        return Part(operand.name, dtype, self._place(operand, dtype))

    def _dtype(self, name: str) -> str:
        wished = self.wish.get(f"{name} dtype")
        if wished is not None:
            return wished
        if name == "x":
            # Twice as often what most kernels take.
            return self.dice.pick((*self.able.dtypes, *(d for d in self.able.dtypes if d == "f32")))
        return self.dice.pick(self._allowed(name))

    def _allowed(self, name: str) -> tuple[str, ...]:
        weight = self.parts["weight"].dtype if "weight" in self.parts else None
        return self.able.dtypes_of(name, self.parts["x"].dtype, weight)

    def _alias(self, name: str) -> str | None:
        """The input in whose memory the output is, where that is allowed, possible and so decided."""
        shared = {part.alias for part in self.parts.values()}
        wished = self.wish.get(f"{name} dtype")
        allowed = self._allowed(name) if wished is None else (wished,)
        sources = [
            source
            for output, source in self.op.aliases
            if output == name and (output, source) in self.able.aliases and source in self.parts
            if source not in shared and self.parts[source].dtype in allowed
            if self.parts[source].place.layout not in OVERLAPPING
        ]
        wished = self.wish.get(f"{name} alias")
        if wished is not None:
            return wished if wished in sources else None
        if not sources or f"{name} layout" in self.wish or f"{name} byte" in self.wish:
            return None
        return self.dice.pick(sources) if self.dice.one_in(4) else None

    def _recipe(self, operand: Operand) -> str:
        if operand.menu == "any":
            return self.sketch.recipe
        wished = self.wish.get(f"{operand.name} recipe")
        if wished is not None:
            return wished
        return self.dice.pick(MENUS[operand.menu] if self.dice.one_in(4) else often(operand.menu))

    def _stack(self, operand: Operand) -> str:
        """Dice of its own: tensors that come later are the same with and without."""
        dice = Dice(Stream(self.sketch.seed).child(f"stack of {operand.name}"))
        return self.wish.get(f"{operand.name} stack", dice.pick(("", "", "", *STACKS)))

    def _place(self, operand: Operand, dtype: str) -> Placement:
        """Where a tensor goes. Each has dice of its own, and no two share the gap between their rows."""
        name, sketch, able = operand.name, self.sketch, self.able
        possible = layouts_of(sketch.capability, operand.role, operand in self.op.inputs)
        beyond = sketch.odd or (able.strides != "any" and self.dice.one_in(6))
        usual = possible if beyond else tuple(layout for layout in possible if layout in _ROW_WISE)
        layout = self.wish.get(f"{name} layout", self.dice.pick(usual))
        spread, guard = 1 + self.dice.below(19), self.dice.pick(_GUARDS)
        steps = CACHE_LINE // ITEMSIZE[dtype]
        offset = 0 if self.dice.one_in(2) else self.dice.below(steps)
        if f"{name} byte" in self.wish:
            layout, guard, offset = "contiguous", "before", int(self.wish[f"{name} byte"]) // ITEMSIZE[dtype]
        if layout == "reversed" and able.strides == "rows":
            # The rows backwards, not their elements.
            layout, spread = ("reversed", 3 * (spread % 3) + 1) if sketch.rank > 1 else ("contiguous", spread)
        place = Placement(layout, spread, guard, offset)
        if self.even:
            layout = layout if layout in _ROW_WISE else "contiguous"
            place = Placement(layout, EVEN * (1 + spread % 4), "before", offset // EVEN * EVEN)
        step = max(1, able.alignment // ITEMSIZE[dtype]) if operand.role == "grid" else 1
        place = _aligned(place, sketch.n, step, steps) if step > 1 else place
        return self._apart(place, max(step, EVEN if self.even else 1))

    def _apart(self, place: Placement, step: int) -> Placement:
        """The placement with a gap between rows that no other tensor has, by so many elements more."""
        if place.layout not in _GAPPED:
            return place
        while place.spread in self.gaps:
            place = replace(place, spread=place.spread + step)
        self.gaps.add(place.spread)
        return place


def _aligned(place: Placement, n: int, step: int, steps: int) -> Placement:
    """The placement with every row at a multiple of `step` elements; `steps` are a cache line."""
    spread = place.spread + -(n + place.spread) % step
    layout = "pitched" if n % step and place.layout == "contiguous" else place.layout
    return Placement(layout, spread, "before", place.offset // step * step % max(steps, step))
