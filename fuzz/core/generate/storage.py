"""Storage: a draw with its tensors elsewhere in memory, in other layouts, or in each other, as probes ask for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from fuzz.core.base.case import Guard
from fuzz.core.base.draw import Draw, Placement, Shift
from fuzz.core.generate.layouts import OVERLAPPING
from fuzz.core.generate.realise import layout_of
from oracles.ops import OPS

Memory = Mapping[str, tuple[str, Shift | None, bool]]
"""For each output in the memory of an input, by name: which input, how far the output lies from being exactly in its
place, and whether it is then dense, as of `Part`."""


def grids(draw: Draw) -> list[str]:
    """The tensors that have rows of their own."""
    return [part.name for part in draw.parts if OPS[draw.op].has_rows(part.name)]


def laid_out(draw: Draw, layouts: Mapping[str, str]) -> Draw:
    """Some tensors of the first input's shape in other layout classes."""
    return draw.with_parts(
        *(
            replace(part, place=replace(part.place, layout=allowed(draw, part.name, layouts[part.name])))
            for part in draw.parts
            if part.name in layouts
        )
    )


def allowed(draw: Draw, name: str, layout: str) -> str:
    """Elements of an output have memory of their own."""
    return "contiguous" if layout in OVERLAPPING and not OPS[draw.op].is_input(name) else layout


def placed_at(draw: Draw, guard: Guard, offset: int, names: Collection[str] = ()) -> Draw:
    """Some tensors, or else all, at that side of their guard page."""
    return draw.with_parts(
        *(
            replace(part, place=replace(part.place, guard=guard, offset=offset))
            for part in draw.parts
            if not names or part.name in names
        )
    )


def stepped(draw: Draw, steps: Mapping[str, int]) -> Draw:
    """Tensors that are one column or row with these distances between elements, where it is not 1."""
    own = grids(draw)
    return draw.with_parts(
        *(
            replace(part, place=replace(part.place, step=steps.get(part.name, 1)))
            for part in draw.parts
            if part.name not in own
        )
    )


def steps_of(draw: Draw) -> dict[str, int]:
    """As of `stepped`."""
    return {part.name: part.place.step for part in draw.parts if part.place.step != 1}


def unfolded(draw: Draw) -> Draw:
    """With memory for each element of an input: what shares memory is equal, and may hide as much as any values."""
    folded = [
        part
        for part in draw.parts
        if part.alias is None and OPS[draw.op].is_input(part.name) and 0 in layout_of(draw, part).strides
    ]
    return draw.with_parts(*(replace(p, place=Placement(guard=p.place.guard, offset=p.place.offset)) for p in folded))


def sharing(draw: Draw, names: Collection[str]) -> Draw:
    """These inputs are the first one itself, and no others. Equal rows do not round at random to one another."""
    main = OPS[draw.op].main
    changed = [replace(part, alias=main if part.name in names else None) for part in draw.parts if part.given]
    return replace(draw.with_parts(*changed), structured=draw.structured or bool(names))


def shared_of(draw: Draw) -> frozenset[str]:
    """As of `sharing`."""
    return frozenset(part.name for part in draw.parts if part.given and part.alias is not None)


def stacked(draw: Draw, stacks: Mapping[str, str]) -> Draw:
    """These weights have rank 2, with one row or with many, and no others."""
    return draw.with_parts(*(replace(part, stack=stacks.get(part.name, "")) for part in draw.parts if part.given))


def stacks_of(draw: Draw) -> dict[str, str]:
    """As of `stacked`."""
    return {part.name: part.stack for part in draw.parts if part.stack}


def in_memory(draw: Draw, memory: Memory) -> Draw:
    """These outputs in the memory of inputs, and no others."""
    changed = []
    for part in draw.parts:
        if not OPS[draw.op].is_input(part.name):
            source, shift, dense = memory.get(part.name, (None, None, False))
            changed.append(replace(part, alias=source, shift=shift, dense=dense))
    return draw.with_parts(*changed)


def memory_of(draw: Draw) -> Memory:
    """The outputs that are in the memory of inputs."""
    outputs = (part for part in draw.parts if not OPS[draw.op].is_input(part.name))
    return {part.name: (part.alias, part.shift, part.dense) for part in outputs if part.alias is not None}


def is_apart(draw: Draw) -> bool:
    """True where every tensor has memory of its own, or is exactly in place of one input."""
    return all(part.alias is None or (part.shift is None and part.given is None) for part in draw.parts)
